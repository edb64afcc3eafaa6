"""What every feature stands on: database, money, ids, errors, HTTP. Uses nothing of ours."""
