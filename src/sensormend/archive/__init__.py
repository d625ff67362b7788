"""The package cleans what is complete: files by `clean_archive`, frames and labelled arrays by `clean`."""

__all__: list[str] = []
