"""Prints what Ganeti's own tables say of every field that can be asked for.

One line each: kind of object, field, title, kind of value; with tabs. Fields are in the order in
which its clients list them.
"""

from ganeti import query, utils

KINDS = ("node", "group", "job", "lock", "instance", "network", "export", "filter",
         "cluster", "os", "extstorage")

for what in KINDS:
  fields = [entry[0] for entry in query.ALL_FIELDS[what].values()]
  for field in utils.NiceSort(fields, key=lambda field: field.name):
    print("\t".join((what, field.name, field.title, field.kind)))
