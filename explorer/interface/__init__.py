"""What pages are made of: controls, plots, readouts, exports, the address, long work. Knows no page."""
