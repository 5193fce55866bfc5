"""Makes a queue directory as Ganeti leaves it: by its own code, below GANETI_ROOTDIR.

One job for each way in which a job can stand, with opcodes that Gantry has and such that it has
not, reasons, logs, dependencies, an archive, and a drained queue. Prints one line each: number,
status as Ganeti sees it, and where the job lies.
"""

import json
import os

from ganeti import constants, errors, jqueue, jstore, opcodes, pathutils, serializer, utils

LAST = 10004


class Queue(object):
  """Writes job files where the real queue does, and nowhere else."""

  def UpdateJobUnlocked(self, job, replicate=True):
    text = serializer.DumpJson(job.Serialize())
    utils.WriteFile(path(job.id), data=text, mode=constants.JOB_QUEUE_FILES_PERMS)


QUEUE = Queue()


def path(number):
  return jqueue.JobQueue._GetJobPath(number)


def delay(**more):
  op = opcodes.OpTestDelay(duration=0, no_locks=True, on_nodes=[], priority=0,
                           reason=[("gnt:client:gnt-debug", "delay", utils.EpochNano())],
                           **more)
  op.Validate(True)
  return op


def stop():
  op = opcodes.OpRestrictedCommand(command="power", nodes=["web.example.com"], priority=-10,
                                   reason=[("gnt:user", "power", utils.EpochNano())])
  op.Validate(True)
  return op


def job(number, ops):
  made = jqueue._QueuedJob(QUEUE, number, ops, True)
  QUEUE.UpdateJobUnlocked(made)
  return made


def begin(made, index):
  op = made.ops[index]
  op.status = constants.OP_STATUS_WAITING
  op.start_timestamp = jqueue.TimeStampNow()
  if made.start_timestamp is None:
    made.start_timestamp = op.start_timestamp
  made.process_id = 4711
  made.livelock = "job_%d" % made.id
  QUEUE.UpdateJobUnlocked(made)
  return jqueue._OpExecCallbacks(QUEUE, made, op)


def run(made, index, result=None, error=None):
  callbacks = begin(made, index)
  callbacks.NotifyStart()
  callbacks.Feedback("begins, \u00e4\u20ac")
  callbacks.Feedback(constants.ELOG_MESSAGE_LIST, ["one", "two"])
  callbacks.Feedback(constants.ELOG_DELAY_TEST, ["/run/socket", 1])
  op = made.ops[index]
  op.end_timestamp = jqueue.TimeStampNow()
  op.status, op.result = constants.OP_STATUS_SUCCESS, result
  if error is not None:
    op.status, op.result = constants.OP_STATUS_ERROR, jqueue._EncodeOpError(error)
    made.MarkUnfinishedOps(constants.OP_STATUS_ERROR,
                           jqueue._EncodeOpError(errors.OpExecError("Preceding opcode failed")))
  if all(op.status in constants.OPS_FINALIZED for op in made.ops):
    made.Finalize()
  QUEUE.UpdateJobUnlocked(made)


def make():
  jobs = []

  def add(number, ops):
    jobs.append(job(number, ops))
    return jobs[-1]

  archived = add(1, [delay()])
  run(archived, 0)
  done = add(2, [delay(), stop()])
  run(done, 0)
  run(done, 1, result=[["web", True], {"of": 2.5}])
  failed = add(3, [stop(), delay()])
  error = errors.OpPrereqError("no such instance", errors.ECODE_NOENT)
  run(failed, 0, error=error)
  canceled = add(4, [delay()])
  assert canceled.Cancel()[0]
  QUEUE.UpdateJobUnlocked(canceled)
  add(5, [delay(comment="queued")])
  add(6, [stop()])
  begin(add(7, [delay(), delay()]), 0)
  callbacks = begin(add(8, [delay(), stop()]), 0)
  callbacks.NotifyStart()
  callbacks.Feedback("half done")
  ending = add(9, [delay(), delay()])
  begin(ending, 0)
  assert ending.Cancel()[0]
  QUEUE.UpdateJobUnlocked(ending)
  add(10, [delay(depends=[(5, []), (1, ["success"])])])
  add(11, [delay(depends=[(6, ["success"])])])
  part = add(12, [delay(), delay()])
  run(part, 0)
  late = add(10001, [stop()])
  run(late, 0)
  for old in (archived, late):
    target = jqueue.JobQueue._GetArchivedJobPath(old.id)
    utils.RenameFile(path(old.id), target, mkdir=True, mkdir_mode=0o750)
    old.archived = True
  return jobs


def main():
  os.makedirs(pathutils.JOB_QUEUE_ARCHIVE_DIR, 0o750)
  lock = jstore.InitAndVerifyQueue(True)
  utils.WriteFile(pathutils.JOB_QUEUE_SERIAL_FILE, data="%d\n" % LAST)
  jobs = make()
  jstore.SetDrainFlag(True)
  lock.Close()
  for made in jobs:
    print("%d %s %s" % (made.id, made.CalcStatus(), "archived" if made.archived else "live"))


main()
