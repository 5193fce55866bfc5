//! Requests of sabakan's own clients, byte for byte as Go writes them: `sabactl` 3.1.9, and the query of
//! sabakan-state-setter.

use serde_json::{Value, json};
use tests::cluster::IPAM;

use super::Front;

/// `sabactl machines get --role worker`: every flag is a parameter.
const SEARCH: &str = "/api/v1/machines?bmc-type=&ipv4=&ipv6=&labels=&rack=&role=worker&serial=&state=\
    &without-bmc-type=&without-ipv4=&without-ipv6=&without-labels=&without-rack=&without-role=\
    &without-serial=&without-state=";
/// `sabactl machines create` of two machines, of which the second one is as another sabakan shows it.
const CREATE: &str = r#"[{"serial":"s1","labels":null,"rack":1,"index-in-rack":0,"role":"worker","ipv4":null,"ipv6":null,"register-date":"0001-01-01T00:00:00Z","retire-date":"0001-01-01T00:00:00Z","bmc":{"ipv4":"","ipv6":"","type":"iDRAC-9"}},{"serial":"s2","labels":{"product":"R640"},"rack":1,"index-in-rack":9,"role":"boot","ipv4":["10.69.0.201"],"ipv6":[],"register-date":"2018-11-21T01:23:45Z","retire-date":"2028-11-21T01:23:45Z","bmc":{"ipv4":"10.72.17.41","ipv6":"","type":"IPMI-2.0"}}]
"#;
/// `sabactl dhcp set` of a file with name servers alone, and of an empty one.
const SERVERS: &str = r#"{"lease-minutes":0,"dns-servers":["10.0.0.53"],"gateway-offset":0}"#;
const NO_SERVERS: &str = r#"{"lease-minutes":0,"gateway-offset":0}"#;
/// `sabactl ignitions set` of a file that says `version: 2.3` alone.
const TEMPLATE: &str = r#"{"version":"2.3","template":{"ignition":{"version":"2.3.0","config":{},"security":{"tls":{}},"timeouts":{}},"networkd":{},"passwd":{},"storage":{},"systemd":{}},"meta":null}"#;
/// How sabakan-state-setter asks for retired machines.
const RETIRED: &str = r#"{"query":"query search($having: MachineParams) { searchMachines(having: $having, notHaving: null) { spec { serial } info { network { ipv4 { address } } } } }","variables":{"having":{"states":["retired"]}}}"#;

#[test]
fn what_gos_clients_send_is_taken() {
    let front = Front::begin();
    let answer = |method: &str, path: &str, body: &str| {
        let sent = ["-X", method, "-H", "X-Sabakan-User: root", "-H", "Content-Type:"];
        let (status, body) =
            front.answer("alice", &[&sent[..], &["--data-binary", body, path]].concat());
        (status, serde_json::from_str(&body).unwrap_or(Value::Null))
    };
    let get = |path: &str| {
        let (status, body) = front.answer("bob", &[path]);
        (status, serde_json::from_str(&body).unwrap_or(Value::from(body)))
    };
    assert_eq!(answer("PUT", "/api/v1/config/ipam", IPAM).0, 200);
    assert_eq!(get(SEARCH).0, 404);
    assert_eq!(answer("POST", "/api/v1/machines", CREATE), (201, Value::Null));
    let (_, found) = get(SEARCH);
    let [s1] = found.as_array().expect("machines").as_slice() else { panic!("{found}") };
    assert_eq!(
        (&s1["spec"]["serial"], &s1["spec"]["bmc"]["type"]),
        (&"s1".into(), &"iDRAC-9".into())
    );
    assert_eq!(s1["spec"]["retire-date"], s1["spec"]["register-date"]);
    let (_, found) = get("/api/v1/machines?serial=s2");
    let spec = &found[0]["spec"];
    assert_eq!(
        (&spec["retire-date"], &spec["labels"]["product"]),
        (&"2028-11-21T01:23:45Z".into(), &"R640".into())
    );
    assert_ne!(spec["index-in-rack"], 9, "the rules give places");
    for (settings, servers) in [(SERVERS, json!(["10.0.0.53"])), (NO_SERVERS, json!([]))] {
        assert_eq!(answer("PUT", "/api/v1/config/dhcp", settings).0, 200);
        let (_, told) = get("/api/v1/config/dhcp");
        assert_eq!((&told["dns-servers"], &told["lease-minutes"]), (&servers, &json!(60)));
    }
    assert_eq!(get("/api/v1/ignitions/worker"), (200, json!([])));
    for id in ["2018.11.07-1", "2018.11.07-02", "v1.2"] {
        let path = format!("/api/v1/ignitions/worker/{id}");
        assert_eq!(answer("PUT", &path, TEMPLATE).0, 201, "{id}");
        assert_eq!(get(&path).1["template"]["ignition"]["version"], "2.3.0");
    }
    assert_eq!(get("/api/v1/ignitions/worker").1, json!(["v1.2", "2018.11.07-1", "2018.11.07-02"]));
    for state in ["retiring", "retired"] {
        assert_eq!(answer("PUT", "/api/v1/state/s1", state).0, 200);
    }
    let asked = ["-H", "Content-Type: application/json", "--data-binary", RETIRED, "/graphql"];
    let told: Value = serde_json::from_str(&front.answer("bob", &asked).1).unwrap();
    let machines = &told["data"]["searchMachines"];
    assert_eq!(machines[0]["spec"]["serial"], "s1", "{told}");
    assert_eq!(machines[0]["info"]["network"]["ipv4"][0]["address"], s1["spec"]["ipv4"][0]);
    let (_, log) = front.answer("bob", &["/api/v1/logs"]);
    let first: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert!(first["rev"].as_str().is_some_and(|rev| rev.parse::<u64>().is_ok()), "{first}");
}
