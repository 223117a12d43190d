"""The cache folder: locks and default place."""

from furlkit.files.cache import open_cache, waiting_for


def test_a_lock_of_the_cache_does_not_follow_a_link(tmp_path):
    cache = open_cache(tmp_path / "cache")
    (cache / "locks" / "name").symlink_to(tmp_path / "new")
    with waiting_for(cache, "name", lambda: None):
        pass
    assert not (tmp_path / "new").exists()
