"""Code that all actors share. Read `protocol` first, then `ports`; the other folders are adapters."""
