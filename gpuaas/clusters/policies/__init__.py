"""How many workers a pool should have: policies, decisions and replays. Pure: no clock, no database, no site."""
