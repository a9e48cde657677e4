"""The coordinator's REST face: wiring, routes, schemas, metadata store, authentication."""
