"""What every actor shares. Read `protocol` first, then `ports`; the other folders are adapters."""
