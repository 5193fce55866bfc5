//! The way to the other members. A lone voter has none.

use std::future::Future;
use std::io;

use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::RPCOption;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::type_config::alias::{SnapshotOf, VoteOf};
use openraft::{BasicNode, OptionalSend, RaftNetworkFactory, RaftNetworkV2};

use crate::state::Image;
use crate::types::TypeConfig;

/// Reaches nobody.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoPeers;

fn unreachable() -> Unreachable<TypeConfig> {
    Unreachable::new(&io::Error::other("this member knows no way to others"))
}

impl RaftNetworkFactory<TypeConfig> for NoPeers {
    type Network = Self;

    async fn new_client(&mut self, _target: u64, _node: &BasicNode) -> Self {
        Self
    }
}

impl RaftNetworkV2<TypeConfig> for NoPeers {
    type SnapshotData = Image;

    async fn append_entries(
        &mut self,
        _request: AppendEntriesRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RPCError<TypeConfig>> {
        Err(unreachable().into())
    }

    async fn vote(
        &mut self,
        _request: VoteRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        Err(unreachable().into())
    }

    // Left out, it would be granted by everyone who cannot be reached.
    async fn pre_vote(
        &mut self,
        _request: VoteRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        Err(unreachable().into())
    }

    async fn full_snapshot(
        &mut self,
        _vote: VoteOf<TypeConfig>,
        _snapshot: SnapshotOf<TypeConfig, Image>,
        _cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        Err(unreachable().into())
    }

    async fn transfer_leader(
        &mut self,
        _request: TransferLeaderRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Result<TransferLeaderResponse<TypeConfig>, RPCError<TypeConfig>> {
        Err(unreachable().into())
    }
}
