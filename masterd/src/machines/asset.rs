//! Opcodes on assets: files that machines fetch by name.

pub mod fields;

use std::collections::BTreeSet;
use std::sync::Arc;

use jobs::locks::Level;
use model::Exception;
use model::asset::{ASSET_BYTES_MAX, ASSETS_MAX, Asset, AssetSerial, OPTIONS_MAX};
use model::blob::Blob;
use model::error::ErrorCode;
use model::node::{Node, NodeRole};
use model::opcode::{AssetRemove, AssetSet, AssetWritten};

use super::image::distribute;
use super::rack;
use crate::config::{Config, ConfigChange};
use crate::units::{Context, Failure, LogicalUnit, Wanted, wrong};

/// Checks what the types alone do not.
fn check_form(op: &AssetSet, config: &Config) -> Result<(), Exception> {
    let (name, size, options) = (&op.name, op.blob.size, op.options.len());
    if size > ASSET_BYTES_MAX {
        return Err(wrong(format!(
            "asset '{name}' has {size} bytes; at most {ASSET_BYTES_MAX} are taken"
        )));
    }
    if size == 0 {
        return Err(wrong(format!("asset '{name}' would be empty")));
    }
    if options > OPTIONS_MAX {
        return Err(wrong(format!(
            "asset '{name}' has {options} options; at most {OPTIONS_MAX} are taken"
        )));
    }
    if !config.assets.contains_key(name) && config.assets.len() >= ASSETS_MAX {
        return Err(wrong(format!(
            "there are {ASSETS_MAX} assets, which is the limit; remove one"
        )));
    }
    Ok(())
}

/// The nodes that are to have the files of assets; this machine's own agent first, from which the master
/// reads them.
fn keepers(config: &Config) -> Vec<Arc<Node>> {
    let keeps = |node: &&Arc<Node>| node.role == NodeRole::Candidate || node.rack.is_some();
    let mut nodes: Vec<_> = config.nodes.values().filter(keeps).cloned().collect();
    nodes.sort_by_key(|node| (node.name != config.role.master, node.name.clone()));
    nodes
}

impl LogicalUnit for AssetSet {
    type Plan = ();

    /// None: what it replaces is decided in its transaction, which excludes others.
    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        check_form(self, &context.config())?;
        let (source, blob) = (context.source(), self.blob);
        let found = stdx::aside(|| source.open(blob).map(drop));
        found.map_err(|error| wrong(stdx::daemon::chain(&error)))?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<AssetWritten, Failure> {
        let config = context.config();
        // Agents serve what it replaces until they have their new document.
        let replaced = config.assets.get(&self.name).map(|asset| asset.blob);
        let pinned: Vec<Blob> = replaced.into_iter().chain([self.blob]).collect();
        let _pin = context.source().pin(&pinned).await;
        let nodes = keepers(&config);
        distribute(context, &nodes, &[self.blob], Some(&config.role.master)).await?;
        let (now, blob) = (context.now(), self.blob);
        let written = context
            .transact(move |config| {
                check_form(&self, config)?;
                let last = config.asset_serial.as_deref().copied().unwrap_or_default().last;
                let Self { name, content_type, blob, options } = self;
                let id = last + 1;
                let created = !config.assets.contains_key(&name);
                let asset = Asset { name, id, content_type, blob, options, ctime: now };
                let serial = ConfigChange::AssetSerial(AssetSerial { last: id });
                Ok((vec![ConfigChange::Asset(asset), serial], AssetWritten { id, created }))
            })
            .await?;
        let source = context.source();
        stdx::aside(|| source.clear([blob]));
        push(context).await?;
        Ok(written)
    }
}

/// Tells the agents of all racks.
async fn push(context: &mut Context) -> Result<(), Failure> {
    let racks: BTreeSet<u32> = context.config().served().collect();
    rack::push(context, &racks).await
}

impl LogicalUnit for AssetRemove {
    type Plan = ();

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        Ok(is_known(self, &context.config())?)
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<(), Failure> {
        context
            .transact(move |config| {
                is_known(&self, config)?;
                Ok((vec![ConfigChange::AssetRemoved(self.name)], ()))
            })
            .await?;
        push(context).await
    }
}

fn is_known(op: &AssetRemove, config: &Config) -> Result<(), Exception> {
    if config.assets.contains_key(&op.name) {
        return Ok(());
    }
    let text = format!("Asset '{}' is not known; `gnt asset list` names all", op.name);
    Err(Exception::prereq(text, ErrorCode::UnknownEntity))
}
