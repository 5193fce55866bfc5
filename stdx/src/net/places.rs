//! A TCP listener with a bounded number of places.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Pause after a failed accept, which as a rule means that file descriptors ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Takes connections while there are places; whoever finds none is closed.
#[derive(Debug)]
pub struct Places {
    listener: TcpListener,
    /// What is served, for the log.
    what: &'static str,
    most: usize,
    free: Arc<Semaphore>,
}

impl Places {
    /// `most` places on `listener` for `what`, a word for the log.
    #[must_use]
    pub fn new(listener: TcpListener, what: &'static str, most: usize) -> Self {
        Self { listener, what, most, free: Arc::new(Semaphore::new(most)) }
    }

    /// The next connection with its place, which is free again when the permit is dropped. `None`
    /// once `stopped` is true, or its sender gone.
    pub async fn accept(
        &self,
        stopped: &mut watch::Receiver<bool>,
    ) -> Option<(TcpStream, OwnedSemaphorePermit)> {
        let what = self.what;
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                _ = stopped.wait_for(|stop| *stop) => return None,
            };
            match accepted {
                Ok((stream, _from)) => match Arc::clone(&self.free).try_acquire_owned() {
                    Ok(place) => return Some((stream, place)),
                    Err(_full) => tracing::warn!(what, limit = self.most, "too many connections"),
                },
                Err(error) => {
                    tracing::warn!(what, %error, "connection was not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn who_finds_no_place_is_closed_and_a_place_is_used_again() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, mut stopped) = watch::channel(false);
        let places = Places::new(listener, "test", 1);
        let _first = TcpStream::connect(address).await.unwrap();
        let (_stream, place) = places.accept(&mut stopped).await.unwrap();
        let mut second = TcpStream::connect(address).await.unwrap();
        let closed = async { second.read(&mut [0]).await.unwrap() };
        let read = tokio::select! {
            read = closed => read,
            _ = places.accept(&mut stopped) => panic!("there was no place"),
        };
        assert_eq!(read, 0);
        drop(place);
        let _third = TcpStream::connect(address).await.unwrap();
        assert!(places.accept(&mut stopped).await.is_some());
        stop.send_replace(true);
        assert!(places.accept(&mut stopped).await.is_none());
    }
}
