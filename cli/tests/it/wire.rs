//! The requests of `gnt` for objects and opcodes that a master need not know, and its reading of
//! answers.

use crate::script::Script;

const SUBMITTED: &str = r#"{"success":true,"result":5}"#;

fn success(result: &str) -> String {
    format!(r#"{{"success":true,"result":{result}}}"#)
}

/// The end of a one-opcode job.
fn ended(status: &str, result: &str) -> String {
    success(&format!(r#"[["{status}",["{status}"],[{result}]],[]]"#))
}

/// Runs `gnt` against one answer after the other, each list of them on a connection of its own:
/// what it asked, what it printed, its exit status.
fn run(words: &[&str], connections: &[Vec<String>]) -> (Vec<String>, String, i32) {
    let script = Script::new();
    let child = script.gnt(words);
    let mut asked = Vec::new();
    for answers in connections {
        let answers: Vec<&str> = answers.iter().map(String::as_str).collect();
        let mut questions = script.answer(&answers);
        // The last question is the end of the connection.
        assert_eq!(questions.pop().as_deref(), Some(""), "{words:?}");
        asked.extend(questions);
    }
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (asked, printed, output.status.code().unwrap())
}

fn job(end: &str, result: &str) -> Vec<Vec<String>> {
    vec![vec![SUBMITTED.to_owned(), ended(end, result)]]
}

#[test]
fn opcodes() {
    for (words, sent) in [
        (
            "cluster add-tags a b",
            r#""OP_ID":"OP_TAGS_SET","debug_level":0,"dry_run":false,"kind":"cluster","name":"","reason""#,
        ),
        ("cluster remove-tags a b", r#""OP_ID":"OP_TAGS_DEL""#),
        ("node add-tags n1 a b", r#""kind":"node","name":"n1""#),
        ("group remove-tags default a b", r#""kind":"nodegroup","name":"default""#),
        ("group add-tags default -d a -d b", r#""debug_level":2"#),
        ("cluster add-tags a b --priority low", r#""priority":10"#),
        ("cluster add-tags a b --reason why", r#""reason":[["gnt:user","why","#),
        ("cluster redist-conf", r#""SubmitJob""#),
        ("cluster redist-conf --yes-do-it", r#""SubmitJobToDrainedQueue""#),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let (asked, printed, status) = run(&words, &job("success", "null"));
        assert!(asked[0].contains(sent), "{words:?}: {}", asked[0]);
        let tagged = asked[0].contains(r#""tags":["a","b"]"#);
        assert_eq!(tagged, !words.contains(&"redist-conf"), "{words:?}: {}", asked[0]);
        assert_eq!((printed.as_str(), status), ("", 0), "{words:?}");
    }
}

#[test]
fn found_tags() {
    let found = r#"[["/nodes/n2","b"],["/cluster","a"]]"#;
    let words = ["cluster", "search-tags", "^[ab]$"];
    let (asked, printed, status) = run(&words, &job("success", found));
    assert!(asked[0].contains(r#""OP_ID":"OP_TAGS_SEARCH""#) && asked[0].contains("^[ab]$"));
    assert_eq!((printed.as_str(), status), ("/cluster a\n/nodes/n2 b\n", 0));
    let (_asked, printed, status) = run(&words, &job("success", "[]"));
    assert_eq!((printed.as_str(), status), ("", 1));
}

#[test]
fn tags_that_are_wrong() {
    let wrong = r#"["TagError",["Tag contains invalid characters"]]"#;
    let (_asked, printed, status) = run(&["cluster", "add-tags", "a b"], &job("error", wrong));
    assert!(printed.starts_with("error: Tag contains"), "{printed}");
    assert_eq!(status, 1);
}

#[test]
fn rules() {
    let added = [vec![success(r#""0d0b""#)]];
    let words = [
        "filter",
        "add",
        "--priority",
        "3",
        "--action",
        "RATE_LIMIT 5",
        "--predicates",
        r#"[["opcode",["=","OP_ID","OP_TEST_DELAY"]]]"#,
        "--reason",
        "why",
    ];
    let (asked, printed, status) = run(&words, &added);
    let sent = r#"[null,3,[["opcode",["=","OP_ID","OP_TEST_DELAY"]]],["RATE_LIMIT",5],[["gnt:user","why","#;
    assert!(asked[0].contains("ReplaceFilter") && asked[0].contains(sent), "{}", asked[0]);
    assert_eq!((printed.as_str(), status), ("0d0b\n", 0));
    let (asked, _printed, _status) = run(&["filter", "replace", "0d0b"], &added);
    assert!(asked[0].contains(r#"["0d0b",0,[],"CONTINUE",[],null]"#), "{}", asked[0]);
    let (asked, printed, status) = run(&["filter", "delete", "0d0b"], &[vec![success("null")]]);
    assert!(asked[0].contains(r#""DeleteFilter""#) && asked[0].contains(r#"["0d0b",null]"#));
    assert_eq!((printed.as_str(), status), ("", 0));
    let row = success(r#"[["0d0b",7,3,[["jobid",[">","id",5]]],"PAUSE",[]]]"#);
    let (_asked, printed, _status) = run(&["filter", "info", "0d0b"], &[vec![row]]);
    let expected = "UUID: 0d0b\n  Watermark: 7\n  Priority: 3\n  \
                    Predicates: [['jobid', ['>', 'id', 5]]]\n  Action: PAUSE\n  Reason trail: []\n";
    assert_eq!(printed, expected);
}

#[test]
fn the_watcher() {
    let told = |command: &[&str], answer: &str| {
        let words = [&["cluster", "watcher"], command].concat();
        run(&words, &[vec![success(answer)]])
    };
    let (asked, printed, status) = told(&["continue"], "null");
    assert!(asked[0].contains(r#""SetWatcherPause""#) && asked[0].contains("[null]"));
    assert_eq!((printed.as_str(), status), ("The watcher is no longer paused.\n", 0));
    let (asked, printed, _status) = told(&["info"], "[null]");
    assert!(asked[0].contains("watcher_pause"), "{}", asked[0]);
    assert_eq!(printed, "The watcher is not paused.\n");
}

/// The master ends the pause, whatever the clock says on the machine where it was asked for.
#[test]
fn a_pause_counts_by_the_clock_of_the_master() {
    let words = ["cluster", "watcher", "pause", "4h"];
    let connections = [vec![success("[3999985600.25]")], vec![success("4000000000.25")]];
    let (asked, printed, _status) = run(&words, &connections);
    assert!(asked[0].contains(r#"["master_time"]"#), "{asked:?}");
    assert!(asked[1].contains(r#""SetWatcherPause""#), "{asked:?}");
    assert!(asked[1].contains("[4000000000.25]"), "{asked:?}");
    assert_eq!(printed, "The watcher is paused until 2096-10-02 07:06:40+00:00.\n");
}

#[test]
fn a_zone_that_is_none_is_told_once() {
    let master = crate::toy::start();
    let shown = |zone: &str| {
        let mut gnt = std::process::Command::new(env!("CARGO_BIN_EXE_gnt"));
        gnt.args(["job", "list", "-v", "-o", "received_ts,opstart", "--color", "always"]);
        let output = gnt.env("GANTRY_ROOT", master.root.path()).env("TZ", zone).output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (printed, told) = shown("Middle/Earth");
    assert!(printed.contains("2023-11-14 22:13:20.500000+00:00"), "{printed}");
    assert_eq!(told.matches("TZ=Middle/Earth").count(), 1, "{told}");
    let (printed, told) = shown("CET-1CEST");
    assert!(printed.contains("2023-11-14 23:13:20.500000+01:00"), "{printed}");
    assert_eq!(told, "");
}

/// Text that somebody gave as a tag, a pattern or a reason.
const FORGED: &str = "x\u{1b}[2J\ny\u{202e}\u{9b}";
/// The form in which it is shown.
const SHOWN: &str = r"x\x1b[2J\ny\u202e\x9b";

#[test]
fn text_from_outside_is_shown_and_not_obeyed() {
    let text = serde_json::json!(FORGED).to_string();
    let field = r#"{"name":"summary","title":"S","kind":"other","doc":"d"}"#;
    let table = success(&format!(r#"{{"fields":[{field}],"data":[[[0,[{text}]]]]}}"#));
    let rows = success(&format!("[[{text},1,2,[],{text},[]]]"));
    let failure = format!(r#"{{"success":false,"result":["OpExecError",[{text}]]}}"#);
    let entry = format!(r#"[1,[1700000000,0],"message",{text}]"#);
    let spoken = success(&format!(r#"[["success",["success"],[null]],[{entry}]]"#));
    for (line, answers) in [
        ("job list -o summary", vec![table.clone()]),
        ("job list -o summary --separator :", vec![table.clone()]),
        ("job list -o summary --json", vec![table]),
        ("filter info", vec![rows]),
        ("cluster queue info", vec![failure]),
        ("cluster list-tags", vec![success(&format!("[{text}]"))]),
        ("job watch 5", vec![spoken]),
        ("cluster search-tags x", {
            let found = ended("success", &format!(r#"[["/cluster",{text}]]"#));
            vec![SUBMITTED.to_owned(), found]
        }),
        ("job cancel 5", vec![success(&format!("[true,{text}]"))]),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let (_asked, printed, _status) = run(&words, &[answers]);
        let (shown, lines) = match words.contains(&"--json") {
            true => (r"x\u001b[2J\ny\u202e\u009b", printed.lines().count()),
            false => (SHOWN, printed.lines().filter(|line| line.contains("y\\u202e")).count()),
        };
        assert!(printed.contains(shown) && lines > 0, "{line}: {printed:?}");
        let acts = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(!printed.contains(acts), "{line}: {printed:?}");
        let begun = printed.lines().filter(|line| line.trim_start().starts_with('y')).count();
        assert_eq!(begun, 0, "{line}: {printed:?}");
    }
}

#[test]
fn verification() {
    let spawned = r#"{"jobs":[[true,6],[true,7],[false,"no room"]]}"#;
    let verify = vec![SUBMITTED.to_owned(), ended("success", spawned)];
    let lost = r#"{"success":false,"result":["JobLost",["Job 6 is not there"]]}"#;
    let jobs =
        vec![success(r#"[["waiting"],["running"]]"#), ended("success", "true"), lost.to_owned()];
    let (asked, printed, status) =
        run(&["cluster", "verify", "--error-codes", "-I", "ENODEVERSION"], &[verify, jobs]);
    assert!(asked[0].contains(r#""OP_ID":"OP_CLUSTER_VERIFY""#), "{}", asked[0]);
    assert!(asked[0].contains(r#""ignore_errors":["ENODEVERSION"]"#), "{}", asked[0]);
    let expected = "Submitted jobs 6, 7\nWaiting for job 7 ...\nWaiting for job 6 ...\n\
                    2 job(s) failed while verifying the cluster.\n\
                    Failed to submit job: no room\n\
                    Job 6 has been archived, cannot check its result\n";
    assert_eq!((printed.as_str(), status), (expected, 1));
    for (result, expected) in [("true", 0), ("false", 1)] {
        let verify = vec![SUBMITTED.to_owned(), ended("success", r#"{"jobs":[[true,6]]}"#)];
        let jobs = vec![ended("success", result)];
        let (_asked, printed, status) = run(&["cluster", "verify"], &[verify, jobs]);
        let told = "Submitted jobs 6\nWaiting for job 6 ...\n";
        assert_eq!((printed.as_str(), status), (told, expected));
    }
}

#[test]
fn what_a_verification_found_as_json() {
    let field = |name: &str| format!(r#"{{"name":"{name}","title":"T","kind":"other","doc":"d"}}"#);
    let fields = ["id", "status", "oplog"].map(field).join(",");
    let log = r#"[[[1,[1700000000,0],"message","ERROR: node n2: away"]]]"#;
    let row = format!(r#"[[0,6],[0,"success"],[0,{log}]]"#);
    for (result, good, exit) in [("true", true, 0), ("false", false, 1)] {
        let connection = vec![
            SUBMITTED.to_owned(),
            ended("success", r#"{"jobs":[[true,6]]}"#),
            ended("success", result),
            success(&format!(r#"{{"fields":[{fields}],"data":[{row}]}}"#)),
        ];
        let words = ["cluster", "verify", "--json"];
        let (_asked, printed, status) = run(&words, &[connection]);
        let found: serde_json::Value = serde_json::from_str(&printed).unwrap();
        assert_eq!((&found["good"], status), (&serde_json::json!(good), exit), "{printed}");
        let told = &found["jobs"][0]["oplog"][0][0];
        assert_eq!(
            told,
            &serde_json::json!([1, 1_700_000_000.0, "message", "ERROR: node n2: away"])
        );
    }
}

#[test]
fn every_list_info_verify_and_status_has_json() {
    fn check(command: &clap::Command) {
        for verb in command.get_subcommands() {
            let has = verb.get_arguments().any(|argument| argument.get_long() == Some("json"));
            let name = verb.get_name();
            let wants = ["list", "info", "verify", "verify-disks", "status"].contains(&name);
            assert!(has || !wants, "{} {name} has no --json", command.get_name());
            check(verb);
        }
    }
    check(&cli::command());
}

#[test]
fn an_action_that_does_not_exist_is_told_in_words_of_the_command_line() {
    for action in ["foo", "RATE_LIMIT", "RATE_LIMIT 0", "reject"] {
        let words = ["filter", "add", "--action", action];
        let output = Script::new().gnt(&words).wait_with_output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        let wrong = format!("or 'RATE_LIMIT N' with N from 1, not '{action}'");
        assert!(told.contains(&wrong), "{told}");
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn a_job_that_a_rule_refuses_names_the_rule() {
    let (_asked, printed, status) =
        run(&["debug", "delay", "1"], &job("canceled", r#""Job rejected by filter rule 0d0b""#));
    let expected = "error: Job was canceled\nJob rejected by filter rule 0d0b: ";
    assert!(printed.starts_with(expected), "{printed}");
    assert_eq!(status, 1);
    let (_asked, printed, _status) =
        run(&["debug", "delay", "1"], &job("canceled", r#""Job canceled by request""#));
    assert!(printed.starts_with("error: Job was canceled\nThis was job 5"), "{printed}");
}

#[test]
fn a_node_that_does_not_answer_may_not_be_enrolling() {
    use model::Secret;
    use model::enrol::{Fingerprint, SECRET_BYTES, Token};
    let token = Token {
        host: "192.0.2.4".to_owned(),
        port: 1811,
        fingerprint: Fingerprint::from_bytes([0xA7; 32]),
        secret: Secret::new([0x5C; SECRET_BYTES]),
    };
    let token = token.to_text().expose().clone();
    let words = ["node", "add", "n4", "--secret", &token];
    for (told, doubted) in [("cannot reach the agent of node n4", true), ("no room", false)] {
        let failed = format!(r#"["OpExecError",["{told}"]]"#);
        let mut connections = vec![vec![success("null")]];
        connections.extend(job("error", &failed));
        let (_asked, printed, status) = run(&words, &connections);
        assert!(printed.contains(told), "{printed}");
        assert_eq!((printed.contains("if `noded enroll` has ended"), status), (doubted, 1));
    }
}

#[test]
fn a_code_that_does_not_exist_makes_no_job() {
    let script = Script::new();
    let output = script.gnt(&["cluster", "verify", "-I", "NOPE"]).wait_with_output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("'NOPE'") && told.contains("ENODEVERSION"), "{told}");
    assert_eq!(output.status.code(), Some(2));
    script.listener.set_nonblocking(true).unwrap();
    assert!(script.listener.accept().is_err(), "nothing was asked");
}

#[test]
fn whether_the_master_answers() {
    let ping = ["cluster", "master-ping"];
    assert_eq!(run(&ping, &[vec![success("{}")]]).2, 0);
    let root = tempfile::tempdir().unwrap();
    let gone = crate::toy::gnt("gnt-cluster", root.path().to_owned(), "master-ping", "");
    assert_eq!(gone, "$ gnt-cluster master-ping\n(exit 1)\n");
}

#[test]
fn what_is_not_in_gantry_is_refused_with_the_reason() {
    for (program, line) in [
        ("gnt", "storage diagnose"),
        ("gnt-instance", "snapshot web"),
        ("gnt-debug", "wconfd echo x"),
        ("gnt", "debug metad x"),
        ("gnt-cluster", "copyfile /etc/hosts"),
    ] {
        let told = crate::toy::gnt(program, "/nonexistent".into(), line, "");
        assert!(
            told.contains("(stderr) Not in Gantry: ") && told.ends_with("(exit 1)\n"),
            "{told}"
        );
    }
}

#[test]
fn what_a_job_waits_for() {
    let field = |name: &str, kind: &str| {
        format!(r#"{{"name":"{name}","title":"T","kind":"{kind}","doc":"d"}}"#)
    };
    let names = "id status received_ts start_ts end_ts ops opstatus opresult opstart opexec opend \
                 oplog waits_for owner";
    let answer = |known: bool, waits: &str, owner: &str| {
        let fields: Vec<String> = names
            .split(' ')
            .map(|name| {
                let ours = matches!(name, "waits_for" | "owner");
                field(name, if ours && !known { "unknown" } else { "other" })
            })
            .collect();
        let row = format!(
            r#"[[0,5],[0,"waiting"],[0,[1700000000,5]],[0,null],[0,null],[0,[{{"OP_ID":"OP_X"}}]],
            [0,["waiting"]],[0,[null]],[0,[null]],[0,[null]],[0,[null]],
            [0,[[[1,[1700000001,7],"message","a\nb"]]]],{waits},{owner}]"#
        );
        success(&format!(r#"{{"fields":[{}],"data":[{row}]}}"#, fields.join(",")).replace('\n', ""))
    };
    let wait = r#"[0,[{"reason":"lock","lock":"node/n1","mode":"exclusive","at":"node/n1",
        "owners":[[3,"shared"]],"ahead":[4]}]]"#;
    let head = "- Job ID: 5\n  Status: waiting\n  \
                Received:         2023-11-14 22:13:20.000005+00:00\n  \
                Processing start: unknown (None)\n  \
                Processing end:   unknown (None)\n  \
                Total processing time: N/A\n";
    let tail = "  Opcodes: \n    - Opcode: OP_X\n      Status: waiting\n      \
                Processing start: N/A\n      Execution start:  N/A\n      Processing end:   N/A\n      \
                Input fields: \n        OP_ID: OP_X\n      Result: None\n      Execution log: \n        \
                - Time: 2023-11-14 22:13:21.000007+00:00\n          Content: [1, message, a\\nb]\n";
    let known = answer(true, wait, r#"[0,"root"]"#);
    let (_asked, printed, status) = run(&["job", "info", "5"], &[vec![known]]);
    let ours = "  Owner: root\n  Waits for: \n    - Lock: node/n1 (exclusive)\n      \
                Held by jobs: 3 (shared)\n      Jobs ahead: 4\n";
    assert_eq!((printed, status), (format!("{head}{ours}{tail}"), 0));
    let unknown = answer(false, "[1,null]", "[1,null]");
    let (_asked, printed, status) = run(&["job", "info", "5"], &[vec![unknown]]);
    assert_eq!((printed, status), (format!("{head}{tail}"), 0));
}

#[test]
fn a_list_in_a_pipe_is_for_a_reader_where_colours_are_asked_for() {
    for (words, colored) in [
        (&["job", "list", "--color", "always"] as &[&str], true),
        (&["job", "list"], false),
        (&["job", "list", "--color", "always", "-o", "id"], false),
    ] {
        let (_asked, printed, status) = run(words, &[vec![crate::terminal::JOBS.to_owned()]]);
        let shown = printed.contains("\u{1b}[32msuccess\u{1b}[0m");
        assert_eq!((shown, status), (colored, 0), "{words:?}: {printed}");
    }
}

#[test]
fn times_of_jobs_in_a_pipe_are_those_of_ganeti() {
    let table = |name: &str| {
        success(&format!(
            r#"{{"fields":[{{"name":"{name}","title":"T","kind":"other","doc":"d"}}],
            "data":[[[0,[1700000000,5]]]]}}"#
        ))
    };
    let words = ["job", "list", "--no-headers", "-o", "received_ts"];
    let answer = table("received_ts").replace('\n', "");
    let (_asked, printed, status) = run(&words, &[vec![answer.clone()]]);
    assert_eq!((printed.as_str(), status), ("[1700000000, 5]\n", 0));
    let words = ["job", "list", "--json", "-o", "received_ts"];
    let (_asked, printed, _status) = run(&words, &[vec![answer]]);
    assert!(printed.contains("\"received_ts\": 1700000000.000005"), "{printed}");
}

#[test]
fn equal_jobs_are_no_repeats_of_one_another() {
    let script = Script::new();
    let file = script.root.path().join("job");
    let job = br#"[{"OP_ID":"OP_TEST_DELAY","duration":0}]"#;
    stdx::atomic::write(&file, job, 0o600).unwrap();
    let words = ["debug", "submit-job", "--each", "--job-repeat", "2", file.to_str().unwrap()];
    let child = script.gnt(&words);
    let waiting = success(r#"[["success"],["success"]]"#);
    let answers = [
        SUBMITTED,
        r#"{"success":true,"result":6}"#,
        &waiting,
        &ended("success", "null"),
        &ended("success", "null"),
    ];
    let asked = script.answer(&answers);
    assert!(asked[0].contains("SubmitJob") && asked[1].contains("SubmitJob"), "{asked:?}");
    assert_ne!(asked[0], asked[1]);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0));
}
