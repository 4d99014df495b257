"""`bytewise receipt` and `bytewise verify`: finds receipts, checks them, compares saved answers with them."""
