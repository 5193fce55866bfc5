"""64 clients that change things by REST while the master is lost: what is acknowledged is there, once.

Each change has a tag of its own and a mark, by which it may be sent again until it is acknowledged.
"""
import base64
import http.client
import json
import os
import ssl
import sys
import threading
import time

DOORS, MARKS = sys.argv[1].split(","), sys.argv[2]
CLIENTS, AFTER, PATIENCE = 64, 2, 120.0
TLS = ssl._create_unverified_context()
LOGIN = "Basic " + base64.b64encode(b"alice:secret").decode()

acknowledged, repeated, lock = {}, [0], threading.Lock()


def ask(door, method, path, mark=None):
    connection = http.client.HTTPSConnection(door, 5080, context=TLS, timeout=60)
    try:
        headers = {"Authorization": LOGIN}
        if mark:
            headers["Idempotency-Key"] = mark
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def change(door, tag):
    begun = time.monotonic()
    while time.monotonic() - begun < PATIENCE:
        try:
            status, body = ask(door, "PUT", "/2/tags?tag=" + tag, tag)
        except (OSError, http.client.HTTPException) as error:
            status, body = 0, str(error)
        if status == 200:
            with lock:
                acknowledged[tag] = int(body)
            return
        # Everything else must say that it may be sent again.
        if status not in (0, 502, 503, 504):
            print("%s: %s %s" % (tag, status, body), flush=True)
            os._exit(3)
        with lock:
            repeated[0] += 1
        time.sleep(0.2)
    print("%s was never acknowledged" % tag, flush=True)
    os._exit(4)


def client(number):
    door, count, after = DOORS[number % len(DOORS)], 0, 0
    while after < AFTER:
        moved = os.path.exists(MARKS + "/moved")
        change(door, "c%d-%d" % (number, count))
        count, after = count + 1, after + moved


clients = [threading.Thread(target=client, args=(number,), daemon=True) for number in range(CLIENTS)]
for one in clients:
    one.start()
while len(acknowledged) < 2 * CLIENTS:
    time.sleep(0.05)
os.mkdir(MARKS + "/loaded")
for one in clients:
    one.join()

jobs = json.loads(ask(DOORS[0], "GET", "/2/jobs?bulk=1")[1])
made = {}
for job in jobs:
    for op in job["ops"]:
        if op["OP_ID"] == "OP_TAGS_SET":
            made.setdefault(op["tags"][0], []).append(job)
doubled = [tag for tag, jobs in made.items() if len(jobs) > 1]
lost = [tag for tag, job in acknowledged.items() if job not in [one["id"] for one in made.get(tag, [])]]
tags = set(json.loads(ask(DOORS[0], "GET", "/2/tags")[1]))
# A job that ran when the master was lost ends in an error, and says so.
failed = [tag for tag in acknowledged if tag not in tags and made[tag][0]["status"] != "error"]
print(json.dumps({
    "acknowledged": len(acknowledged), "repeated": repeated[0], "doubled": doubled, "lost": lost, "failed": failed,
}))
