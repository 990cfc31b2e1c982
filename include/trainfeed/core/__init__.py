"""What all rooms stand on: settings, times, text, numbers, ties of processes, points for kills.

Nothing here knows files of data, clusters or Arrow. Each module is imported by its own name.
"""

__all__: list[str] = []
