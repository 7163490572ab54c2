"""What a person asks for: each job a few dozen lines over the rooms below."""
