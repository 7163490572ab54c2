"""Everything between people's text and token ids. Knows no model and no terminal."""
