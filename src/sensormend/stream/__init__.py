"""The package cleans a live feed: it has the sources, the stream, the sinks, and the service that runs them."""
