//! Core: documents in YAML that describe switches and configurations of ports, as Metal3's proposal writes
//! them: `Switch`, `AnsibleSwitch`, `SwitchPort` and `SwitchPortConfiguration`.

use std::collections::BTreeMap;
use std::path::Path;

use model::opcode::network::OrNone;
use model::opcode::switch::Login;
use model::opcode::{PortConfigurationAdd, PortSetParams, SwitchAdd};
use model::switch::{AclRule, PortKey, PortSpec, SwitchUrl, Vlan, VlanOf, VlanSet, Wanted};
use model::{OpCode, Word};
use serde::Deserialize;
use serde_json::Value;

use crate::error::CliError;

/// Documents of one file.
const DOCUMENTS_MAX: usize = 1_000;
/// The program that is asked for a switch of the kind `AnsibleSwitch`.
const ANSIBLE: &str = "ansible";

/// What every document has.
#[derive(Debug, Deserialize)]
struct Document {
    kind: String,
    #[serde(alias = "metaData")]
    metadata: Metadata,
    #[serde(default)]
    spec: Value,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: Word,
    #[serde(default)]
    owner_references: Vec<Reference>,
}

#[derive(Debug, Deserialize)]
struct Reference {
    #[serde(default)]
    kind: String,
    name: Word,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchSpec {
    provider: Reference,
    #[serde(default)]
    ports: BTreeMap<Word, PortOf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct PortOf {
    name: String,
    #[serde(default)]
    disabled: bool,
    #[serde(default)]
    vlan_range: Option<VlanSet>,
    /// By its name; the proposal's comment beside it says the opposite.
    #[serde(default)]
    trunk_disable: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct AnsibleSpec {
    os: String,
    ip: String,
    #[serde(default)]
    port: Option<u16>,
    #[serde(default)]
    bridge: Option<String>,
    /// A secret of Kubernetes, of which nothing is here.
    #[serde(default, rename = "credentialsSecret")]
    _credentials: Value,
}

#[derive(Debug, Deserialize)]
struct PortLink {
    configuration: Reference,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigurationSpec {
    #[serde(default)]
    acl: Vec<BTreeMap<String, Value>>,
    #[serde(default, rename = "untaggedVLAN")]
    untagged: Option<Vlan>,
    #[serde(default, alias = "taggedVLANRange")]
    vlans: Option<VlanSet>,
    #[serde(default, alias = "disable")]
    disabled: bool,
}

/// The opcodes of a file, those of configurations first.
///
/// # Errors
/// It does not read, or names what is not in it.
pub(super) fn opcodes(path: &Path, text: &str) -> Result<Vec<OpCode>, CliError> {
    let wrong = |why: String| CliError::wrong_input(format!("{}: {why}", path.display()));
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| wrong(error.to_string()))?;
    if documents.is_empty() || documents.len() > DOCUMENTS_MAX {
        return Err(wrong(format!(
            "{} documents; 1 to {DOCUMENTS_MAX} are taken",
            documents.len()
        )));
    }
    read(documents).map_err(wrong)
}

fn read(documents: Vec<Value>) -> Result<Vec<OpCode>, String> {
    let mut ways = BTreeMap::new();
    let (mut configurations, mut switches, mut links) = (Vec::new(), Vec::new(), Vec::new());
    for (number, document) in documents.into_iter().enumerate() {
        let told = |why: String| format!("document {}: {why}", number + 1);
        let read: Document = serde_json::from_value(document).map_err(|e| told(e.to_string()))?;
        let Document { kind, metadata, spec } = read;
        let name = metadata.name.clone();
        let told = |why: String| told(format!("{kind} {name}: {why}"));
        match kind.as_str() {
            "AnsibleSwitch" => {
                ways.insert(metadata.name.clone(), spec_of::<AnsibleSpec>(spec).map_err(told)?);
            }
            "Switch" => {
                let spec = spec_of::<SwitchSpec>(spec).map_err(told)?;
                switches.push((metadata.name.clone(), spec));
            }
            "SwitchPortConfiguration" | "SwitchportConfiguration" => {
                let spec = spec_of::<ConfigurationSpec>(spec).map_err(told)?;
                let wanted = wanted(spec).map_err(told)?;
                let configuration_name = metadata.name.clone();
                let op = PortConfigurationAdd { configuration_name, wanted };
                configurations.push(OpCode::PortConfigurationAdd(op));
            }
            "SwitchPort" => {
                let link = spec_of::<PortLink>(spec).map_err(told)?;
                let owner = metadata.owner_references.iter().find(|owner| owner.kind == "Switch");
                let owner = owner.ok_or_else(|| told("its owner is no Switch".to_owned()))?;
                let port = PortKey { switch: owner.name.clone(), port: metadata.name.clone() };
                links.push(OpCode::PortSetParams(PortSetParams {
                    ports: vec![port],
                    serves: None,
                    configuration: Some(OrNone::Some(link.configuration.name)),
                    phases: BTreeMap::new(),
                }));
            }
            _ => {
                let kinds = "Switch, AnsibleSwitch, SwitchPort and SwitchPortConfiguration";
                return Err(told(format!("the kind is none of {kinds}")));
            }
        }
    }
    let mut ops = configurations;
    for (name, spec) in switches {
        ops.push(switch(name, spec, &ways)?);
    }
    ops.extend(links);
    Ok(ops)
}

fn spec_of<T: for<'de> Deserialize<'de>>(spec: Value) -> Result<T, String> {
    serde_json::from_value(spec).map_err(|error| format!("spec: {error}"))
}

fn switch(
    name: Word,
    spec: SwitchSpec,
    ways: &BTreeMap<Word, AnsibleSpec>,
) -> Result<OpCode, String> {
    let provider = &spec.provider.name;
    let way = ways.get(provider).filter(|_| spec.provider.kind == "AnsibleSwitch");
    let way = way.ok_or_else(|| {
        format!("Switch {name}: its provider, AnsibleSwitch {provider}, is not in the file")
    })?;
    let port = way.port.map(|port| port.to_string());
    let options = [
        ("os", Some(way.os.clone())),
        ("ip", Some(way.ip.clone())),
        ("port", port),
        ("bridge", way.bridge.clone()),
    ];
    let word = |text: &str| text.parse::<Word>().map_err(|error| error.to_string());
    let mut told = BTreeMap::new();
    for (key, value) in options {
        if let Some(value) = value {
            told.insert(word(key)?, value);
        }
    }
    let port = |(name, port): (Word, PortOf)| {
        let PortOf { name: real, disabled, vlan_range, trunk_disable } = port;
        (name, PortSpec { name: real, disabled, vlans: vlan_range, trunk: !trunk_disable })
    };
    Ok(OpCode::SwitchAdd(SwitchAdd {
        switch_name: name,
        url: SwitchUrl::Command { program: word(ANSIBLE)? },
        login: Login::default(),
        options: told,
        rack: None,
        agents: Vec::new(),
        mac: None,
        vlans: None,
        ports: spec.ports.into_iter().map(port).collect(),
        all_ports: false,
        unchecked: false,
    }))
}

fn wanted(spec: ConfigurationSpec) -> Result<Wanted, String> {
    // A rule of which nothing is filled in is none: the proposal shows one.
    let is_filled = |rule: &BTreeMap<String, Value>| rule.values().any(|value| !value.is_null());
    let rule = |mut rule: BTreeMap<String, Value>| {
        rule.retain(|_, value| !value.is_null());
        let rule = serde_json::to_value(rule).unwrap_or_default();
        serde_json::from_value::<AclRule>(rule).map_err(|error| format!("spec.acl: {error}"))
    };
    let acl = spec.acl.into_iter().filter(is_filled).map(rule).collect::<Result<_, _>>()?;
    let untagged = spec.untagged.map(VlanOf::Number);
    let tagged = spec.vlans.unwrap_or_default();
    Ok(Wanted { untagged, tagged, acl, disabled: spec.disabled, ..Wanted::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the proposal, one behind the other.
    const PROPOSAL: &str = r#"
apiVersion: metal3.io/v1alpha1
kind: Switch
metadata:
  name: switch-example
  namespace: default
spec:
  provider:
    kind: AnsibleSwitch
    name: switch-sample
  ports:
    "switchport-example":
      name: eth1
      disabled: false
      vlanRange: 1, 6-10
      trunkDisable: false
---
apiVersion: v1alpha1
kind: AnsibleSwitch
metaData:
  name: switch-sample
  namespace: default
spec:
  os: fos
  ip: 192.168.0.1
  port: 22
  # Only for ovs switch
  bridge:
  credentialsSecret:
    name: switch-example-secret
---
apiVersion: metal3.io/v1alpha1
kind: SwitchPort
metadata:
  name: switchport-example
  ownerReferences:
    - apiVersion: metal3.io/v1alpha1
      kind: Switch
      name: switch-example
      uid: <switch-uuid>
spec:
  configuration:
    name: switchportconfiguration-example
    namespect: default
---
apiVersion: metal3.io/v1alpha1
kind: SwitchPortConfiguration
metadata:
  name: switchportconfiguration-example
spec:
  acl:
  - type: # ipv4, ipv6
    action: # allow, deny
  - type: ipv4
    action: deny
    protocol: TCP
    src: 10.0.0.0/8
    desPortRange: 22-30
  untaggedVLAN: 1
  vlans: "2-10"
  disabled: false
"#;

    fn told(text: &str) -> String {
        match opcodes(Path::new("f.yaml"), text) {
            Ok(ops) => serde_json::to_string_pretty(&ops).unwrap(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_proposals_own_documents_are_read() {
        insta::assert_snapshot!(told(PROPOSAL));
    }

    #[test]
    fn a_fault_names_its_document() {
        for (from, to, why) in [
            ("name: switch-sample\n---", "name: other\n---", "document"),
            (
                "vlanRange: 1, 6-10",
                "vlanRange: 10-5",
                "document 1: Switch switch-example: spec: `10-5` goes",
            ),
            ("vlanRange: 1, 6-10", "vlanRange: 4095", "`4095` is no VLAN"),
            ("untaggedVLAN: 1", "untaggedVLAN: 0", "document 4: SwitchPortConfiguration"),
            ("22-30", "0-70000", "`0-70000` is no range of ports"),
            ("kind: AnsibleSwitch\nmeta", "kind: JunosSwitch\nmeta", "the kind is none of Switch"),
            ("      kind: Switch\n", "      kind: Rack\n", "its owner is no Switch"),
        ] {
            let text = PROPOSAL.replacen(from, to, 1);
            let told = told(&text);
            assert!(told.contains(why) || text == PROPOSAL, "{from}: {told}");
        }
    }
}
