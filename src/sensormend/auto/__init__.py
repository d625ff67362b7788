"""The rooms behind AutoOLRTR: scales, neighbourhoods, the timeline and the judge."""
