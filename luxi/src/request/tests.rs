use model::opcode::TestDelay;
use model::{JobId, OpCode, OpInput};
use serde_json::json;

use super::*;
use crate::frame::ETX;
use crate::method::*;

fn parse(text: &str) -> Result<Request, String> {
    Request::parse(text.as_bytes()).map_err(|error| error.to_string())
}

fn args(method: &str, args: &str) -> Result<Request, String> {
    parse(&format!(r#"{{"method":"{method}","args":{args}}}"#))
}

#[test]
fn the_table_is_that_of_ganeti_and_ours() {
    let names: Vec<_> = Request::TABLE.iter().map(|entry| entry.0).collect();
    assert_eq!(names.len(), 25 + 18);
    let find = |name: &str| Request::TABLE.iter().find(|entry| entry.0 == name).unwrap();
    assert_eq!(find("CancelJob").1, "[job_id, kill = false]");
    assert_eq!(find("QueryClusterInfo").1, "[]");
    assert_eq!(find("WaitForJobChange").1, "[job_id, fields, previous, previous_log, timeout]");
}

#[test]
fn one_request_of_each_method_reads() {
    let op = r#"{"OP_ID":"OP_TEST_DELAY","duration":1}"#;
    for (method, text) in [
        ("SubmitJob", format!("[[{op}]]")),
        ("SubmitJobToDrainedQueue", format!("[[{op}]]")),
        ("SubmitManyJobs", format!("[[[{op}],[{op},{op}]]]")),
        ("WaitForJobChange", r#"["5",["status"],null,null,60]"#.to_owned()),
        ("WaitForJobChange", r#"[5,["status"],["running"],7,0.5]"#.to_owned()),
        ("CancelJob", "[5]".to_owned()),
        ("CancelJob", r#"["5",true]"#.to_owned()),
        ("ChangeJobPriority", "[5,-10]".to_owned()),
        ("ArchiveJob", "[5]".to_owned()),
        ("AutoArchiveJobs", "[-1,60]".to_owned()),
        ("PickupJob", "[5]".to_owned()),
        ("Query", r#"["job",["id"],["|",["=","id",5]]]"#.to_owned()),
        ("Query", r#"["machine",["serial"],null]"#.to_owned()),
        ("QueryFields", r#"["node",null]"#.to_owned()),
        ("QueryFields", r#"["lock",["name"]]"#.to_owned()),
        ("QueryJobs", r#"[["5",6],["status"]]"#.to_owned()),
        ("QueryJobs", r#"[null,["status"]]"#.to_owned()),
        ("QueryNodes", r#"[[],["name"],false]"#.to_owned()),
        ("QueryInstances", r#"[["i"],["name"],false]"#.to_owned()),
        ("QueryGroups", r#"[[],["name"],false]"#.to_owned()),
        ("QueryNetworks", r#"[[],["name"],false]"#.to_owned()),
        ("QueryExports", "[[],false]".to_owned()),
        ("QueryFilters", r#"[null,["uuid"]]"#.to_owned()),
        ("ReplaceFilter", r#"[null,1,[],"ACCEPT",[["a","b",1]]]"#.to_owned()),
        ("DeleteFilter", r#"["u"]"#.to_owned()),
        ("QueryConfigValues", r#"[["drain_flag"]]"#.to_owned()),
        ("QueryClusterInfo", "[]".to_owned()),
        ("QueryTags", r#"["cluster",null]"#.to_owned()),
        ("GantryConsole", r#"["web1","bHM=",null,0.5]"#.to_owned()),
        ("SetDrainFlag", "[true]".to_owned()),
        ("SetWatcherPause", "[null]".to_owned()),
        ("SetWatcherPause", "[1700000000.5]".to_owned()),
        ("GantryStageSecret", r#"["n1","hunter2"]"#.to_owned()),
        ("GantryMasterFailover", r#"[null,{"dry_run":true}]"#.to_owned()),
        ("GantryClusterStatus", "[]".to_owned()),
        ("GantryMasterStatus", "[]".to_owned()),
        ("GantryLog", r#"[{"user":"bob","refused":true},100]"#.to_owned()),
        ("GantryNoteRefusals", "[[]]".to_owned()),
        ("GantryIpam", "[]".to_owned()),
        ("GantryDhcp", "[]".to_owned()),
        ("GantryDigest", r#"["machines/s1"]"#.to_owned()),
        ("GantrySeal", r#"["disk-key/s1/sda","c2VjcmV0"]"#.to_owned()),
        ("GantryDiskKey", r#"["s1","sda"]"#.to_owned()),
        ("GantryNetworkFiles", r#"["s1",null,"netplan"]"#.to_owned()),
        ("GantryToken", format!(r#"["{}"]"#, "ab".repeat(32))),
        ("GantryBootDocument", r#"["s1","user-data",null]"#.to_owned()),
        (
            "GantryRamdisk",
            r#"[{"version":62,"base":"https://n1","question":"V1"},"192.0.2.7"]"#.to_owned(),
        ),
    ] {
        let request = args(method, &text);
        assert_eq!(request.as_ref().map(Request::name), Ok(method), "{text}");
        let behind = parse(&format!(r#"{{"args":{text},"method":"{method}"}}"#));
        assert_eq!(request, behind, "the order of the keys means nothing");
    }
}

#[test]
fn python_order_version_and_white_space_are_taken() {
    let text = "\n{\"args\": [\"5\"], \"version\": 3000000, \"method\": \"ArchiveJob\"}\n";
    assert_eq!(parse(text), Ok(Request::ArchiveJob(ArchiveJob { job_id: JobId(5) })));
    let escaped = parse(r#"{"method":"Archive\u004aob","args":[5]}"#);
    assert_eq!(escaped, Ok(Request::ArchiveJob(ArchiveJob { job_id: JobId(5) })));
}

#[test]
fn what_is_no_request_is_told() {
    let nested = format!("[[{}]]", "[".repeat(100_000));
    let deep = format!("[5,[],[{}{}],null,1]", "[".repeat(200), "]".repeat(200));
    for (got, told) in [
        (parse(""), "no JSON object with `method` and `args`"),
        (parse("null"), "no JSON object"),
        (parse("{}"), "missing field `method`"),
        (
            parse(r#" ["QueryClusterInfo",[]]"#),
            "no JSON object with `method` and `args`: it is a list",
        ),
        (parse(r#"{"method":"ArchiveJob"}"#), "missing field `args`"),
        (parse("5"), "`args`: expected an object, found 5"),
        (parse(r#"{"method":5,"args":[]}"#), "method: expected a text, found 5"),
        (parse(r#"{"method":"GantryIpam","method":"GantryIpam","args":[]}"#), "duplicate field"),
        (parse(r#"{"method":"GantryIpam","args":[],"args":[]}"#), "duplicate field `args`"),
        (parse(r#"{"method":"ArchiveJob","args":[5]}x"#), "trailing characters"),
        (parse(r#"{"method":"ArchiveJob","args":[5]"#), "EOF"),
        (args("Nonsense", "[]"), "unknown method `Nonsense`"),
        (
            args("ArchiveJob", "{}"),
            "ArchiveJob takes [job_id]: expected a list of arguments, found an object",
        ),
        (args("ArchiveJob", "[]"), "argument `job_id` is missing"),
        (args("ArchiveJob", "[5,6]"), "too many arguments"),
        (args("ArchiveJob", "[0]"), "job id"),
        (args("ArchiveJob", "[-5]"), "ArchiveJob takes [job_id]"),
        (args("ArchiveJob", r#"["x"]"#), "no job id"),
        (
            args("CancelJob", r#"[5,"yes"]"#),
            "CancelJob takes [job_id, kill = false]: kill: expected true or false, found a text",
        ),
        (args("SubmitJob", r#"[[{"OP_ID":"OP_NONSENSE"}]]"#), "unknown opcode `OP_NONSENSE`"),
        (
            args("SubmitJob", r#"[{"OP_ID":"OP_TEST_DELAY"}]"#),
            "SubmitJob takes [ops]: ops: expected",
        ),
        (
            args("SubmitJob", r#"[[{"OP_ID":"OP_TEST_DELAY","duration":"1"}]]"#),
            "SubmitJob takes [ops]: ops[0]: duration: expected a number, found a text",
        ),
        (
            args("SubmitJob", r#"[[{"OP_ID":"OP_TEST_DELAY","duration":1,"foo":2}]]"#),
            "SubmitJob takes [ops]: ops[0]: unknown field `foo`",
        ),
        (
            args("SubmitManyJobs", r#"[[[],[{"OP_ID":"OP_TEST_DELAY","reason":[["a"]]}]]]"#),
            "jobs[1][0].reason[0]: expected a list of 3 values, found 1 values",
        ),
        (args("Query", r#"["moon",[],null]"#), "unknown variant `moon`"),
        (args("Query", r#"["job",[],["~"]]"#), "unknown filter operator `~`"),
        (args("WaitForJobChange", r#"[5,[],null,null,1e999]"#), "number out of range"),
        (args("SubmitJob", &nested), "no JSON object"),
        (args("WaitForJobChange", &deep), "recursion limit"),
        (args("GantryStageSecret", r#"["n1",5]"#), "expected text"),
    ] {
        let error = got.unwrap_err();
        assert!(error.contains(told), "{told}: {error}");
        assert!(error.len() < 400, "{error}");
    }
    let fields = serde_json::to_string(&vec!["x"; 513]).unwrap();
    assert!(args("QueryFields", &format!(r#"["job",{fields}]"#)).unwrap_err().contains("512"));
    assert!(
        Request::parse(b"{\"method\":\"\xff\"}").unwrap_err().to_string().contains("offset 11")
    );
}

#[test]
fn what_a_client_writes_is_what_the_server_reads() {
    let op = OpCode::TestDelay(TestDelay {
        duration: 0.5,
        on_master: false,
        on_nodes: vec!["n1".to_owned()],
        on_node_uuids: None,
        repeat: 2,
        interruptible: false,
        no_locks: true,
        opportunistic_locking: false,
    });
    let mut buffer = b"left over".to_vec();
    let call = SubmitJob { ops: vec![OpInput::new(op)] };
    write(&call, &mut buffer).unwrap();
    assert_eq!(buffer.last(), Some(&ETX));
    let text = buffer.strip_suffix(&[ETX]).unwrap();
    assert_eq!(Request::parse(text).unwrap(), Request::SubmitJob(call));

    let call = WaitForJobChange {
        job_id: JobId(7),
        fields: Fields::from(["status"]),
        previous: Some(vec![json!("queued")]),
        previous_log: None,
        timeout: 5.0,
    };
    write(&call, &mut buffer).unwrap();
    let text = std::str::from_utf8(buffer.strip_suffix(&[ETX]).unwrap()).unwrap();
    assert_eq!(text, r#"{"method":"WaitForJobChange","args":[7,["status"],["queued"],null,5.0]}"#);
    write(&QueryClusterInfo {}, &mut buffer).unwrap();
    assert!(buffer.starts_with(br#"{"method":"QueryClusterInfo","args":[]}"#));
}

#[test]
fn secrets_never_print() {
    let request = args("GantryStageSecret", r#"["n1","hunter2"]"#).unwrap();
    assert!(!format!("{request:?}").contains("hunter2"));
    let mut buffer = Vec::new();
    let Request::GantryStageSecret(call) = request else { panic!("another method") };
    write(&call, &mut buffer).unwrap();
    assert!(String::from_utf8(buffer).unwrap().contains("hunter2"));
}

#[test]
fn only_what_is_stamped_can_be_told_from_another_request() {
    let op =
        |reason: &str| format!(r#"{{"OP_ID":"OP_TEST_DELAY","duration":0,"reason":[{reason}]}}"#);
    let (plain, zero) = (op(""), op(r#"["gnt:client","",0]"#));
    let stamped = op(r#"["gnt:client","",0],["me","why",1700000000000000001]"#);
    let digest = |uid, method: &str, args: &str| {
        let orders = [
            format!(r#"{{"args":{args},"method":"{method}"}}"#),
            format!(r#" {{"method":"{method}", "args": {args} ,"version":3000000}}"#),
        ];
        let digests = orders.map(|message| {
            let request = Request::parse(message.as_bytes()).unwrap();
            request.digest(uid, message.as_bytes())
        });
        assert_eq!(digests[0], digests[1], "{args}");
        digests[0]
    };
    for method in ["SubmitJob", "SubmitJobToDrainedQueue"] {
        assert!(digest(0, method, &format!("[[{stamped},{stamped}]]")).is_some());
        for ops in [plain.clone(), zero.clone(), format!("{stamped},{plain}"), String::new()] {
            assert_eq!(digest(0, method, &format!("[[{ops}]]")), None, "{ops}");
        }
    }
    let many = format!("[[[{stamped}],[{stamped}]]]");
    let one = digest(7, "SubmitManyJobs", &many);
    assert!(one.is_some());
    assert_eq!(one, digest(7, "SubmitManyJobs", &many));
    assert_ne!(one, digest(8, "SubmitManyJobs", &many));
    assert_ne!(one, digest(7, "SubmitManyJobs", &many.replace("],[", "], [")));
    assert_eq!(digest(7, "SubmitManyJobs", &format!("[[[{stamped}],[{plain}]]]")), None);
    assert_eq!(digest(7, "SubmitManyJobs", &format!("[[[{stamped}],[]]]")), None);
    assert_eq!(digest(7, "ArchiveJob", "[1]"), None);
}
