"""The API reference at ``/docs``: chapters, a page for each group of operations, search.

Drawn on the server from the OpenAPI document, so that no operation is forgotten and every page
reads without JavaScript. A small script of our own adds copying, quick search and calls with the
reader's own key.
"""
