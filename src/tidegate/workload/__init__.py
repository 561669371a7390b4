"""How the world asks: arrivals, lengths, sessions, and the formats in which they are recorded.

Pure: text lines and dice come in, values go out. Opening and unpacking files is a shell's work.

- ``arrival`` and ``traces``: one request as a fact, and millions of them in columns.
- ``formats``: readers and writers of the public trace formats, and of our own CSV and request log.
- ``describe``, ``figures``, ``sharing``, ``tables``: what a trace or a table is like, in numbers.
- ``scale``: the same trace at another rate, in another time, or a part of it.
- ``chance``, ``curves``, ``gaps``, ``lengths``, ``mix``, ``generate``: arrivals from a description.
- ``sessions``, ``closed_loop``, ``servegen``: chats, clients that wait for answers, a fitted fortnight.
"""
