"""What all pages share: frame, languages, forms, responses, and the files under /static."""
