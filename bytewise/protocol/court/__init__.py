"""Rules of disputes in `chain/contracts` as pure functions, without a chain: phases, tally, money (design sections 9 and 13)."""
