"""The API reference at ``/docs``: chapters, a page for each group of operations, search.

Rendered on the server from the OpenAPI document, so that it is complete and readable without
JavaScript. A small script adds copying, quick search and requests with the reader's own key.
"""
