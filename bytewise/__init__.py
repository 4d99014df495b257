"""Code that all actors share. Read `bytewise.protocol` first, then `bytewise.ports`; the other folders are adapters."""
