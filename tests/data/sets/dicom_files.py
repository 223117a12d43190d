"""DICOM files for tests, with a name planted in tags, in the file's meta and before it."""

import numpy as np
import pydicom
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.encaps import encapsulate
from pydicom.uid import ExplicitVRLittleEndian, generate_uid

SECRET = "PLANTED^NAME"


def save_dicom(path, values, syntax=None, **tags):
    """Write (H, W), (frames, H, W) or RGB (H, W, 3) as one DICOM file.

    `tags` are further tags, or others than the usual ones.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file, colour = _named(), values.shape[-1] == 3
    file.SamplesPerPixel = 3 if colour else 1
    file.PhotometricInterpretation = "RGB" if colour else "MONOCHROME2"
    if colour:
        file.PlanarConfiguration = 0
    frames = values.shape[: values.ndim - (3 if colour else 2)]
    if frames:
        file.NumberOfFrames = frames[0]
    file.Rows, file.Columns = values.shape[len(frames) : len(frames) + 2]
    file.BitsAllocated = file.BitsStored = 8 * values.dtype.itemsize
    file.HighBit = file.BitsAllocated - 1
    file.PixelRepresentation = int(values.dtype.kind == "i")
    file.PixelData = np.ascontiguousarray(values).tobytes()
    for name, value in tags.items():
        setattr(file, name, value)
    if "BitsStored" in tags:
        file.HighBit = tags["BitsStored"] - 1
    if syntax is not None:
        file.compress(
            syntax, encoding_plugin=_encoder(syntax), generate_instance_uid=False
        )
    pydicom.dcmwrite(path, file, enforce_file_format=True)
    return path


def encapsulated(path, syntax, stream, kind=None):
    """Replace the pixels of a file by a compressed stream of another program."""
    file = pydicom.dcmread(path)
    file.PixelData = encapsulate([stream])
    file["PixelData"].is_undefined_length = True
    file.file_meta.TransferSyntaxUID = syntax
    file.PhotometricInterpretation = kind or file.PhotometricInterpretation
    file.save_as(path, enforce_file_format=True)


def _encoder(syntax):
    return "pylibjpeg" if "2000" in syntax.name else "pydicom"


def _named():
    file = Dataset()
    file.file_meta = FileMetaDataset()
    file.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    file.file_meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.2"
    file.file_meta.ImplementationVersionName = SECRET
    file.preamble = SECRET.encode().ljust(128, b" ")
    file.SOPClassUID, file.SOPInstanceUID = "1.2.840.10008.5.1.4.1.1.2", generate_uid()
    file.file_meta.MediaStorageSOPInstanceUID = file.SOPInstanceUID
    for tag in ("PatientName", "PatientID", "StudyDescription", "InstitutionName"):
        setattr(file, tag, SECRET)
    file.ImageComments = SECRET
    file.add_new((0x0009, 0x0010), "LO", SECRET)
    return file
