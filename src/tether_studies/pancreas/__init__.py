"""The artificial pancreas: glucose of a virtual patient, 25 minutes ahead, tethered to an ARMAX model.

``simulator`` gives traces, ``data`` cuts them into transitions and probes, ``armax`` fits the trusted model,
``monotonicity`` and ``clinical`` measure, ``figures`` draws. What makes "more insulin never raises
predicted glucose" true by construction is in the library: :mod:`tether.model.monotone`.
"""
