"""Wyoming: the protocol by which Home Assistant talks to speech services.

codec       events: a line of JSON, perhaps more JSON, perhaps bytes
info        what this server can do, as `describe` asks for it
sound       samples of other people's formats
connection  one connection: what was asked for, and that it is answered whatever happens
listening   its sound: transcripts and wake words;   speaking: its text
server      the socket
"""
