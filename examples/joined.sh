# For the summaries of systems: joined FILE... prints those that exist, with commas between.

joined() {
    found=
    for file in "$@"; do
        if [ -e "$file" ]; then found=$found${found:+,}$file; fi
    done
    echo "$found"
}
