"""NetCDF in and out, of time and station; needs the extra `netcdf`.

Files and labelled arrays come in through `labelled.py`; `cf.py` has what goes out.
"""

from sensormend.io.cf import Attributes, Locations, dataset_of, rows_of, write_netcdf
from sensormend.io.labelled import attributes_of, locations_of, readings_of

__all__ = [
    "Attributes",
    "Locations",
    "attributes_of",
    "dataset_of",
    "locations_of",
    "readings_of",
    "rows_of",
    "write_netcdf",
]
