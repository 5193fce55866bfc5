use super::*;

#[derive(Debug, Default, Clone)]
struct Memory(Arc<Mutex<Vec<Obeyed>>>);

impl EpochStore for Memory {
    async fn hold(&self, obeyed: &Obeyed) -> Result<(), HoldError> {
        if obeyed.epoch.term == 99 {
            return Err("the disk is full".into());
        }
        self.0.lock().push(obeyed.clone());
        Ok(())
    }
}

fn epoch(term: u64) -> Epoch {
    Epoch { term, node: 1 }
}

fn n1() -> NodeName {
    "n1".parse().unwrap()
}

fn of_n1(term: u64) -> Obeyed {
    Obeyed { epoch: epoch(term), master: Some(n1()) }
}

#[tokio::test]
async fn a_lower_epoch_is_refused_and_a_higher_one_is_durable_first() {
    let memory = Memory::default();
    let fence = Fence::new(memory.clone(), of_n1(3));
    let (signal, _interrupt) = Signal::new();
    let refused = fence.enter(epoch(2), &n1(), &signal).await.unwrap_err();
    assert_eq!((refused.kind, refused.epoch), (FailureKind::Epoch, Some(epoch(3))));
    drop(fence.enter(epoch(3), &n1(), &signal).await.unwrap());
    assert!(memory.0.lock().is_empty());
    drop(fence.enter(epoch(5), &n1(), &signal).await.unwrap());
    assert_eq!(*memory.0.lock(), [of_n1(5)]);
    assert_eq!(fence.held(), epoch(5));
}

#[tokio::test]
async fn an_epoch_that_is_not_durable_is_not_obeyed() {
    let fence = Fence::new(Memory::default(), of_n1(1));
    let (signal, _interrupt) = Signal::new();
    let failure = fence.enter(epoch(99), &n1(), &signal).await.unwrap_err();
    assert!(failure.message.contains("the disk is full"), "{failure}");
    assert_eq!(fence.held(), epoch(1));
    drop(fence.enter(epoch(1), &n1(), &signal).await.unwrap());
}

#[tokio::test]
async fn a_new_epoch_interrupts_older_calls_and_waits_for_their_end() {
    let fence = Arc::new(Fence::new(Memory::default(), of_n1(1)));
    let (old_signal, mut old_interrupt) = Signal::new();
    let old = fence.enter(epoch(1), &n1(), &old_signal).await.unwrap();
    let (signal, _interrupt) = Signal::new();
    let caller = n1();
    let mut entering = Box::pin(fence.enter(epoch(2), &caller, &signal));
    let told = tokio::select! {
        biased;
        _ = &mut entering => panic!("two epochs ran together"),
        why = old_interrupt.wait() => why,
    };
    assert_eq!(told, Interruption::Superseded(epoch(2)));
    drop(old);
    entering.await.unwrap();
}

#[tokio::test]
async fn nothing_enters_a_fence_that_stops() {
    let fence = Fence::new(Memory::default(), of_n1(1));
    let (signal, mut interrupt) = Signal::new();
    let _running = fence.enter(epoch(1), &n1(), &signal).await.unwrap();
    fence.stop();
    assert_eq!(interrupt.wait().await, Interruption::Stopping);
    assert_eq!(
        fence.enter(epoch(2), &n1(), &signal).await.unwrap_err().kind,
        FailureKind::Interrupted
    );
}

#[tokio::test]
async fn whose_the_epoch_of_the_enrolment_is_is_kept_once() {
    let memory = Memory::default();
    let fence = Fence::new(memory.clone(), epoch(1).into());
    let (signal, _interrupt) = Signal::new();
    drop(fence.enter(epoch(1), &n1(), &signal).await.unwrap());
    drop(fence.enter(epoch(1), &n1(), &signal).await.unwrap());
    assert_eq!(*memory.0.lock(), [of_n1(1)]);
}
