"""The numeric heart: numpy and scipy only; no I/O, no clock, no global random state, no event loop.

Symbols are the paper's: ``theta`` (answer distribution), ``alpha`` (Dirichlet), ``beta``, ``v`` (confidence
mean and its variance), ``SC`` (self-consistency), ``B`` (traces), ``B_bar`` (mean traces per question), ``R_plus``
(optimistic gain), ``K`` grids, ``N`` questions, ``M`` options.
"""
