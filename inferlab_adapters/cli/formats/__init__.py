"""A rendered deployment in the languages of other tools."""
