"""What Ganeti's remote API is used for, by Debian's own client: each answer is compared."""
import json
import sys
import warnings

warnings.simplefilter("ignore")
import ganeti.rapi.client as rapi

ADDRESS, NODE = sys.argv[1:3]


def client(user, password):
    config = rapi.GenericCurlConfig()
    return rapi.GanetiRapiClient(ADDRESS, username=user, password=password, curl_config_fn=config)


def same(what, found, wanted):
    if found != wanted:
        sys.exit("%s is %r, not %r" % (what, found, wanted))


def refused(code, ask):
    try:
        sys.exit("it is not refused: %r" % (ask(),))
    except rapi.GanetiApiError as error:
        same("the code of %s" % error, error.code, code)


def done(job):
    if not alice.WaitForJobCompletion(job, period=1):
        sys.exit("job %s failed: %s" % (job, json.dumps(alice.GetJobStatus(job)["opresult"])))
    return alice.GetJobStatus(job)


def failed(why, job):
    alice.WaitForJobCompletion(job, period=1)
    found = alice.GetJobStatus(job)
    same("job %s" % job, (found["status"], why in json.dumps(found["opresult"])), ("error", True))


alice = client("alice", "secret")
same("version", alice.GetVersion(), 2)
same("name", alice.GetInfo()["name"], "demo.example")
same("systems", alice.GetOperatingSystems(), [])

same("nodes", alice.GetNodes(), [NODE])
same("role in a list", alice.GetNodes(bulk=True)[0]["role"], "M")
same("role", alice.GetNodeRole(NODE), "master")
same("node", alice.GetNode(NODE)["name"], NODE)
same("groups", alice.GetGroups(), ["default"])
same("size of a group", alice.GetGroup("default")["node_cnt"], 1)
same("group in a list", alice.GetGroups(bulk=True)[0]["name"], "default")

job = done(alice.AddClusterTags(["a", "b"]))
same("status", job["status"], "success")
same("who asked", job["ops"][0]["reason"][0][:2], ["gantry:rapi", "alice: PUT /2/tags"])
same("tags", alice.GetClusterTags(), ["a", "b"])
done(alice.DeleteClusterTags(["b"]))
done(alice.AddNodeTags(NODE, ["c"]))
done(alice.AddGroupTags("default", ["d"]))
same("tags of a node", alice.GetNodeTags(NODE), ["c"])
same("tags of a group", alice.GetGroupTags("default"), ["d"])

done(alice.CreateGroup("blue", alloc_policy="last_resort"))
done(alice.CreateGroup("red", dry_run=True))
same("groups", alice.GetGroups(), ["blue", "default"])
same("policy", alice.GetGroup("blue")["alloc_policy"], "last_resort")
done(alice.ModifyGroup("blue", alloc_policy="unallocable"))
same("policy", alice.GetGroup("blue")["alloc_policy"], "unallocable")
done(alice.AssignGroupNodes("blue", [NODE]))
same("nodes of a group", alice.GetGroup("blue")["node_list"], [NODE])
same("group of a node", alice.GetNode(NODE)["group.uuid"], alice.GetGroup("blue")["uuid"])
failed("not empty", alice.DeleteGroup("blue"))
done(alice.RenameGroup("blue", "green"))
done(alice.AddGroupTags("green", ["f"]))
same("tags of another group", alice.GetGroupTags("green"), ["f"])
done(alice.CreateNetwork("net0", "10.4.0.0/24"))
done(alice.ConnectNetwork("net0", "green", "bridged", "br0"))
done(alice.AssignGroupNodes("default", [NODE]))
done(alice.DeleteGroup("green"))
same("groups of a network", alice.GetNetwork("net0")["group_list"], [])
done(alice.DeleteNetwork("net0"))
same("groups", alice.GetGroups(), ["default"])
failed("not empty", alice.DeleteGroup("default"))
refused(404, lambda: alice.GetGroup("blue"))

done(alice.CreateNetwork("net1", "10.5.0.0/24", gateway="10.5.0.1"))
same("networks", alice.GetNetworks(), ["net1"])
done(alice.ConnectNetwork("net1", "default", "bridged", "br0"))
done(alice.ModifyNetwork("net1", gateway="10.5.0.2"))
same("gateway", alice.GetNetwork("net1")["gateway"], "10.5.0.2")
done(alice.AddNetworkTags("net1", ["e"]))
same("tags of a network", alice.GetNetworkTags("net1"), ["e"])
done(alice.DisconnectNetwork("net1", "default"))
done(alice.DeleteNetwork("net1"))
same("networks", alice.GetNetworks(bulk=True), [])
done(alice.CreateNetwork("net2", "10.6.0.0/24", dry_run=True))
same("networks", alice.GetNetworks(), [])

last = max(int(job) for job in alice.GetJobs())
same("change", alice.WaitForJobChange(last, ["status"], None, None)["job_info"], ["success"])
same("bulk", alice.GetJobs(bulk=True)[-1]["id"], last)
refused(404, lambda: alice.GetJobStatus(99999))

rule = [["jobid", [">", "id", 0]]]
filter_id = alice.AddFilter(priority=1, predicates=rule, action="ACCEPT")
alice.ReplaceFilter(filter_id, priority=2, predicates=rule, action="ACCEPT")
same("priority", alice.GetFilter(filter_id)["priority"], 2)
same("filters", [one["uuid"] for one in alice.GetFilters(bulk=True)], [filter_id])
alice.DeleteFilter(filter_id)
same("filters", alice.GetFilters(), [])

same("query", alice.Query("node", ["name", "role"])["data"], [[[0, NODE], [0, "M"]]])
found = alice.Query("node", ["name"], ["=", "role", "O"])
same("query", found["data"], [])
same("fields", [f["name"] for f in alice.QueryFields("node", ["role"])["fields"]], ["role"])

same("instances", alice.GetInstances(), [])
same("instances", alice.GetInstances(bulk=True), [])
refused(404, lambda: alice.GetInstance("i1"))
refused(404, lambda: alice.GetNode("n9"))
failed("Instance 'i1' not known", alice.ReinstallInstance("i1", os="noop"))

done(alice.ModifyCluster(enabled_hypervisors=["fake"], enabled_disk_templates=["diskless"]))
done(alice.CreateInstance("create", "i1.example", "diskless", [], [{}], os="noop", no_install=True,
                          pnode=NODE, name_check=False, ip_check=False))
instance = alice.GetInstance("i1.example")
same("status", (instance["status"], instance["pnode"]), ("running", NODE))
same("memory", instance["beparams"]["memory"], 128)
same("instances", [one["name"] for one in alice.GetInstances(bulk=True)], ["i1.example"])
info = done(alice.GetInstanceInfo("i1.example"))["opresult"][0]
same("info", info["i1.example"]["run_state"], "up")
done(alice.ModifyInstance("i1.example", beparams={"vcpus": 2}))
same("processors", alice.GetInstance("i1.example")["beparams"]["vcpus"], 2)
done(alice.AddInstanceTags("i1.example", ["web"]))
same("tags", alice.GetInstanceTags("i1.example"), ["web"])
done(alice.RebootInstance("i1.example", reboot_type="hard"))
same("console", alice.GetInstanceConsole("i1.example")["kind"], "msg")
failed("already on", alice.MigrateInstance("i1.example", target_node=NODE))
done(alice.ShutdownInstance("i1.example", no_remember=True))
done(alice.StartupInstance("i1.example", no_remember=True))
done(alice.ShutdownInstance("i1.example"))
done(alice.ActivateInstanceDisks("i1.example", ignore_size=True))
done(alice.DeactivateInstanceDisks("i1.example", force=True))
same("status", alice.GetInstance("i1.example")["status"], "ADMIN_down")
refused(404, lambda: alice.GetInstanceConsole("i1.example"))
done(alice.PrepareExport("i1.example", "local"))
failed("DRBD8-based", alice.ReplaceInstanceDisks("i1.example", disks=[0], mode="replace_on_primary"))
units = (NODE, "file", "/srv")
failed("can not be modified", alice.ModifyNodeStorageUnits(*units, allocatable=True))
failed("can not be repaired", alice.RepairNodeStorageUnits(*units))
usual = {"os": "noop", "no_install": True, "name_check": False, "ip_check": False, "start": False}
several = [alice.InstanceAllocation("create", name, "diskless", [], [{}], **usual)
           for name in ("m1.example", "m2.example")]
jobs = done(alice.InstancesMultiAlloc(several))["opresult"][0]["jobs"]
for _, job in jobs:
    done(job)
names = ["i1.example", "m1.example", "m2.example"]
same("of a group", alice.Query("group", ["pinst_cnt", "pinst_list"])["data"], [[[0, 3], [0, names]]])
for name in ("m1.example", "m2.example"):
    done(alice.DeleteInstance(name))
done(alice.RenameInstance("i1.example", "i2.example", ip_check=False, name_check=False))
done(alice.StartupInstance("i2.example"))
same("instances on the node", alice.GetNode(NODE)["pinst_list"], ["i2.example"])
done(alice.DeleteInstance("i2.example"))
same("instances", alice.GetInstances(), [])
failed("--allow-powercycle", alice.PowercycleNode(NODE, force=True))
done(alice.ModifyCluster(candidate_pool_size=3))
same("pool", alice.GetInfo()["candidate_pool_size"], 3)
done(alice.RedistributeConfig())

bob = client("bob", "hunter2")
same("nodes", bob.GetNodes(), [NODE])
refused(403, lambda: bob.AddClusterTags(["x"]))
refused(403, lambda: bob.CancelJob(last))
refused(403, lambda: bob.WaitForJobChange(last, ["status"], None, None))
refused(401, lambda: client("bob", "hunter3").GetNodes())
refused(401, lambda: client("eve", "x").GetNodes())
print("everything is as Ganeti's client wants it")
