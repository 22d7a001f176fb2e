"""Classes of the script itself in pickles, read again here and in children."""

import dataclasses
import multiprocessing
import pickle
import sys
import threading


@dataclasses.dataclass
class Point:
    x: int
    y: int


def double(point):
    return Point(2 * point.x, 2 * point.y)


def work(queue):
    queue.put((multiprocessing.current_process().name, double(Point(1, 2)), sys.argv))


if __name__ == "__main__":
    method = sys.argv[1]
    print(pickle.loads(pickle.dumps(Point(1, 2))), Point.__module__)
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=work, args=(queue,), name="worker")
    process.start()
    print(queue.get())
    process.join()
    print(process.exitcode)
    with context.Pool(2) as pool:
        print(pool.map(double, [Point(i, i) for i in range(4)]))
    result = []
    thread = threading.Thread(target=lambda: result.append(pickle.loads(pickle.dumps(double))))
    thread.start()
    thread.join()
    print(result[0] is double)
    process = context.Process(target=sys.exit, args=(3,))
    process.start()
    process.join()
    print("exit code of a child", process.exitcode)
    process = context.Process(target=threading.Event().wait)
    process.start()
    process.terminate()
    process.join()
    print("exit code of a terminated child", process.exitcode)
