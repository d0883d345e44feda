"""What a private trainer takes, as its documentation lists it."""

PARAMETERS = """
    Parameters
    ----------
    model : torch.nn.Module
        The model; it is changed in place while ``train`` runs.
    loss : callable
        From the model's outputs and the targets to one value per record.
    data : tuple of Tensor, Dataset or DataLoader
        The records: tensors ``(inputs, ..., target)``, a dataset with a length and ``data[i]``, or
        a shuffling ``DataLoader``, whose batches are then drawn by the scheme of the budget.
    budget : Budget, default=None
        What :func:`settle` gives. Where data is a loader, ``epochs``, ``delta`` and one of
        ``epsilon`` and ``noise_multiplier`` may take its place: batches are then drawn by random
        allocation, and a warning says so (LoaderRedrawn).
    optimizer : torch.optim.Optimizer
        One of all parameters of the model that are to be trained.
    clip : float
        The bound C on the norm of one record's gradient, above 0.
    epochs : int, default=None
        How many times the run goes through the data of a loader.
    epsilon : float, default=None
        What the certified epsilon of the whole run must not exceed.
    noise_multiplier : float, default=None
        Scale of the noise over C, the bound on the norm of what one record contributes to a sum.
    delta : float, default=None
        The delta at which epsilon is stated, well below 1/n; needed where there is no budget.
    relation : {"replace_one", "add_remove"}, default=None
        Which data sets are neighbours; None means add_remove where every draw is by Poisson
        sampling or random allocation, and replace_one otherwise.
    n : int, default=None
        A public estimate of the number of records of a loader; None takes their number as public.
    scheduler : torch.optim.lr_scheduler.LRScheduler, default=None
        Moves the learning rate on.
    scheduler_every : {"step", "epoch"}, default="step"
        After what it does so.
    max_rows : int, default=None
        Works on larger batches in pieces of so many records, with the same result.
    device : torch.device or str, default=None
        Where to compute; None means where the model is.
    mixed_precision : torch.dtype, default=None
        ``torch.bfloat16``, or None for the precision of the model.
    seed : int, default=None
        Repeats a run, which is for experiments only: whoever knows the seed can subtract the noise.
        None takes fresh entropy from the operating system.
    ledger : Ledger, str or path, default=None
        Charged for the whole budget, once, before the first step; what would pass its limit is
        refused before the data are read. With a checkpoint it must be one in a file, which a path
        leads to.
    checkpoint : str or path, default=None
        A file; if it exists the run goes on from it.
    checkpoint_every : int, default=1
        After how many steps the file is written; steps are released then.
    resume : bool, default=True
        Whether a run may go on from a file that exists; it is refused otherwise.
    callbacks : iterable of callable, default=()
        Called with a :class:`Released` whenever steps are released.
    progress : bool, default=None
        Whether to show a line on the terminal; None means where there is one.
    losses : bool, default=False
        Whether to hand out the mean losses of batches, which are **not private**.
    timeout : float, default=600.0
        Seconds that the processes of ``torch.distributed`` wait for each other at most.

    Raises
    ------
    InvalidParameter
        An argument is outside what is allowed.
    NotCovered
        No theorem of this package covers what was asked, such as a layer that mixes records.
    BudgetExceeded
        The budget does not fit the limit of the ledger; nothing was written.
"""
