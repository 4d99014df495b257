"""HTTP of a dashboard: the read API, the pages, the event stream, and the limits of what one visitor may use."""
