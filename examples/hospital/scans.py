"""Write CT-like scans of three hospitals, each in another format; no real patient.

    python scans.py FOLDER [PATIENTS]

north     DICOM without suffixes, stored values with slope and intercept
st-mary   TIFF of 16 bits, Hounsfield units
lakeside  TIFF of floats, Hounsfield units

Scans are in FOLDER/SITE/{lesion,none}/PATIENT. A scan is an ellipse of soft tissue (40
Hounsfield units) in air (-1000); a lesion is 60 units brighter, which a window of
-160,240 shows and the full range of 12 bits hides.
"""

import sys
from pathlib import Path

import numpy as np
import pydicom
import tifffile
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

SIDE, EACH = 40, 3  # pixels, scans of a patient


def scan(rng: np.random.Generator, lesion: bool) -> np.ndarray:
    """Hounsfield units (SIDE, SIDE)."""
    y, x = np.mgrid[-1 : 1 : SIDE * 1j, -1 : 1 : SIDE * 1j]
    wide, high = rng.uniform(0.7, 0.9, 2)
    body = (x / wide) ** 2 + (y / high) ** 2 < 1
    units = np.where(body, 40.0, -1000.0)
    if lesion:
        left, top = rng.uniform(-0.35, 0.35, 2)
        units[(x - left) ** 2 + (y - top) ** 2 < 0.06] += 60
    return np.rint(units + rng.normal(0, 12, units.shape))


def save_dicom(path: Path, units: np.ndarray, patient: str) -> None:
    """Write a CT file: 12 bits stored, Hounsfield units by slope and intercept."""
    file = Dataset()
    file.file_meta = FileMetaDataset()
    file.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    file.SOPClassUID, file.SOPInstanceUID = CTImageStorage, generate_uid()
    file.PatientName, file.PatientID = f"Doe^{patient}", patient
    file.SamplesPerPixel, file.PhotometricInterpretation = 1, "MONOCHROME2"
    file.Rows, file.Columns = units.shape
    file.BitsAllocated, file.BitsStored, file.HighBit = 16, 12, 11
    file.PixelRepresentation = 0
    file.RescaleSlope, file.RescaleIntercept = 1, -1024
    file.WindowCenter, file.WindowWidth = 40, 401
    stored = (units + 1024).clip(0, 4095).astype("<u2")
    file.PixelData = stored.tobytes()
    pydicom.dcmwrite(path, file, enforce_file_format=True)


def save(site: str, folder: Path, number: int, units: np.ndarray) -> None:
    """Write a scan in the format of its site."""
    if site == "north":
        save_dicom(folder / f"IM{number:04}", units, folder.name)
    else:
        kind = np.int16 if site == "st-mary" else np.float32
        tifffile.imwrite(folder / f"{number:04}.tif", units.astype(kind))


def main(root: Path, patients: int) -> None:
    """Write scans of `patients` patients for each site; every second patient has a lesion."""
    for seed, site in enumerate(("north", "st-mary", "lakeside")):
        rng = np.random.default_rng(seed)
        for patient in range(patients):
            kind = "lesion" if patient % 2 else "none"
            folder = root / site / kind / f"patient{patient:03}"
            folder.mkdir(parents=True, exist_ok=True)
            for number in range(EACH):
                save(site, folder, number, scan(rng, bool(patient % 2)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 40)
