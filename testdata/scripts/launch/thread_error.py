import threading


def failing():
    raise ValueError("in a thread")


thread = threading.Thread(target=failing, name="failing")
thread.start()
thread.join()
print("end")
