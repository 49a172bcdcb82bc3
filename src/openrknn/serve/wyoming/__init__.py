"""Wyoming: the protocol by which Home Assistant talks to speech services.

codec       events: a line of JSON, perhaps more JSON, perhaps bytes
info        what this server can do, as `describe` asks for it
sound       samples of other people's formats
connection  one connection: what was asked for and what becomes of it
server      the socket
"""
