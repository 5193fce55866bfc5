//! What a controller knows of the hardware: parts and sensors. What it lacks is left out.

use model::bmc::Sensor;
use model::inventory::{Card, Disk, Inventory, Processors, text};
use serde_json::Value;

use super::Redfish;

impl Redfish<'_> {
    /// What the machine is made of.
    pub(super) async fn hardware(&mut self, system: &Value) -> Inventory {
        let word = |name: &str| system[name].as_str().map(text).unwrap_or_default();
        let summary = &system["ProcessorSummary"];
        let number =
            |value: &Value| value.as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
        let mut processors = Processors {
            model: summary["Model"].as_str().map(text).unwrap_or_default(),
            architecture: String::new(),
            sockets: number(&summary["Count"]),
            threads: number(&summary["LogicalProcessorCount"]),
        };
        let first = self.members_of(system, "Processors").await.into_iter().next();
        if let Some(first) = first {
            let set = first["InstructionSet"].as_str().map(text).unwrap_or_default();
            processors.architecture = match set.as_str() {
                "x86-64" => "x86_64".to_owned(),
                "ARM-A64" => "aarch64".to_owned(),
                _ => set,
            };
        }
        let memory = system["MemorySummary"]["TotalSystemMemoryGiB"].as_f64().unwrap_or(0.0);
        // The smallest step that any controller tells is an eighth of a gibibyte.
        let eighths = (memory * 8.0).round().clamp(0.0, f64::from(u32::MAX));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it lies within the range of u32"
        )]
        let memory_mib = eighths as u64 * 128;
        Inventory {
            manufacturer: word("Manufacturer"),
            product: word("Model"),
            serial: word("SerialNumber"),
            uuid: system["UUID"].as_str().and_then(|uuid| uuid.parse().ok()),
            firmware: word("BiosVersion"),
            bmc_firmware: self.manager_firmware(system).await,
            processors,
            memory_mib,
            disks: self.disks(system).await,
            cards: self.cards(system).await,
        }
    }

    async fn manager_firmware(&mut self, system: &Value) -> String {
        let Some(path) = system["Links"]["ManagedBy"][0]["@odata.id"].as_str() else {
            return String::new();
        };
        let manager = self.http.get(path).await.unwrap_or_default();
        manager["FirmwareVersion"].as_str().map(text).unwrap_or_default()
    }

    async fn disks(&mut self, system: &Value) -> Vec<Disk> {
        let mut disks = Vec::new();
        for storage in self.members_of(system, "Storage").await {
            for drive in storage["Drives"].as_array().into_iter().flatten().take(super::PARTS_MAX) {
                let Some(path) = drive["@odata.id"].as_str() else { continue };
                if let Ok(drive) = self.http.get(path).await {
                    disks.push(disk(&drive));
                }
            }
        }
        if disks.is_empty() {
            for storage in self.members_of(system, "SimpleStorage").await {
                let devices = storage["Devices"].as_array();
                disks.extend(devices.into_iter().flatten().take(super::PARTS_MAX).map(disk));
            }
        }
        disks
    }

    async fn cards(&mut self, system: &Value) -> Vec<Card> {
        let all = self.members_of(system, "EthernetInterfaces").await;
        let cards = all.iter().filter_map(|card| {
            let mac =
                card["PermanentMACAddress"].as_str().or_else(|| card["MACAddress"].as_str())?;
            let link = card["LinkStatus"].as_str().map(|link| link == "LinkUp");
            let speed = card["SpeedMbps"].as_u64().and_then(|speed| u32::try_from(speed).ok());
            let name = card["Id"].as_str().map(text).unwrap_or_default();
            let speed = speed.filter(|speed| *speed > 0);
            Some(Card { name, mac: mac.parse().ok()?, speed, link, neighbour: None })
        });
        cards.collect()
    }

    /// Temperatures, fans and power supplies of the chassis around the machine.
    pub(super) async fn sensors(&mut self, system: &Value) -> Vec<Sensor> {
        let mut all = Vec::new();
        let chassis = system["Links"]["Chassis"].as_array().cloned().unwrap_or_default();
        for chassis in chassis.iter().take(super::SYSTEMS_MAX) {
            let Some(path) = chassis["@odata.id"].as_str() else { continue };
            let chassis = self.http.get(path).await.unwrap_or_default();
            for (object, kinds) in [
                ("Thermal", [("Temperatures", "ReadingCelsius", "°C"), ("Fans", "Reading", "")]),
                (
                    "Power",
                    [
                        ("PowerSupplies", "LastPowerOutputWatts", "W"),
                        ("Voltages", "ReadingVolts", "V"),
                    ],
                ),
            ] {
                let Some(path) = chassis[object]["@odata.id"].as_str() else { continue };
                let told = self.http.get(path).await.unwrap_or_default();
                for (list, reading, unit) in kinds {
                    let list = told[list].as_array();
                    let list = list.into_iter().flatten().take(super::PARTS_MAX);
                    all.extend(list.filter_map(|one| sensor(one, reading, unit)));
                }
            }
        }
        all
    }
}

fn sensor(told: &Value, reading: &str, unit: &str) -> Option<Sensor> {
    // What is not there has no health (DSP8010, Resource.State).
    let is_absent = told["Status"]["State"].as_str() == Some("Absent");
    let name = told["Name"].as_str().or_else(|| told["FanName"].as_str()).map(text)?;
    let unit = told["ReadingUnits"].as_str().map_or_else(|| unit.to_owned(), text);
    let value =
        told[reading].as_number().map(|value| format!("{value} {unit}").trim_end().to_owned());
    let health = told["Status"]["Health"].as_str().map_or_else(|| "unknown".to_owned(), text);
    (!is_absent).then_some(Sensor { name, reading: value, health })
}

fn disk(drive: &Value) -> Disk {
    let word = |name: &str| drive[name].as_str().map(text).unwrap_or_default();
    let wwn = drive["Identifiers"][0]["DurableName"].as_str().map(text).unwrap_or_default();
    Disk {
        name: drive["Name"].as_str().or_else(|| drive["Id"].as_str()).map(text).unwrap_or_default(),
        model: word("Model"),
        serial: word("SerialNumber"),
        wwn,
        bytes: drive["CapacityBytes"].as_u64().unwrap_or(0),
        rotational: drive["MediaType"].as_str().map(|media| media == "HDD"),
    }
}
