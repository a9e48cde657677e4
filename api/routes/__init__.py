"""Routes: a file for each kind of thing: what is asked, who may, what is answered. `api.wiring` puts them together."""
