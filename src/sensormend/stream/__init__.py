"""A live feed: sources, the stream, sinks, and the service that runs them."""
