print("a server's program, not a server")
