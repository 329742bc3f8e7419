"""What a tracer tells the reader of M's code: which values are its symbols, and what is done with them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NoReturn


class Symbols(ABC):
    """The values that stand for M's numbers and arrays while it is traced; each tracer has its own.

    The :class:`~tether.trusted.reading.reader.Reader` runs M's code, rewritten so that each operation in it
    is asked of the reader. What only has to do with plain values it does itself, by Python and NumPy. An
    operation in which a symbol takes part comes here. Whoever implements this must either do to symbols what
    Python or NumPy does to the floats and arrays that they stand for, or call :meth:`refuse`.

    A value is a symbol by its exact type (`kinds`), whatever is in it: an array of the trace whose entries
    are all constants is one. Operands, arguments and values may be, apart from symbols: numbers and text of
    Python's and NumPy's own, ``ndarray`` itself of numbers (never of objects), None, ranges, slices, types,
    dtypes, and lists, tuples (never of derived kinds), dictionaries and sets of all of these. Functions of
    the user's among the arguments of a call are ones that were read, and can just be called. Nothing else
    gets here: no objects of the user's, no iterators, no arrays of derived kinds.

    Attributes:
        kinds: the exact types of symbols.
        impure: whether the reader has met what may keep something from call to call. Then nothing is known of
            M, on whichever of its ways it was met.
    """

    kinds: ClassVar[frozenset[type]]
    impure: bool = False

    @abstractmethod
    def refuse(self, what: str, remedy: str = "") -> NoReturn:
        """Raises, and remembers that it did: a run in which anything was refused proves nothing.

        Args:
            what: a sentence about M without a full stop, such as "it calls `time.time`".
            remedy: what to write instead; empty where there is nothing to say.
        """
        raise NotImplementedError

    @abstractmethod
    def truth(self, symbol: Any) -> bool:
        """``bool(symbol)``: where M branches."""

    @abstractmethod
    def operator(self, name: str, *operands: Any) -> Any:
        """An operator with a symbol among its operands, or inside a list or tuple that meets an array.

        Args:
            name: as in Python: ``+ - * / // % ** @ & | ^ << >> < <= > >= == !=``; of one operand ``neg``,
                ``pos``, ``~`` and ``abs``; in place with ``=`` behind it (``+=``), which returns what the
                name on the left stands for then.
            operands: one or two of them.
        """

    @abstractmethod
    def is_pythons(self, symbol: Any) -> bool:
        """Whether it stands for a number of Python's own rather than for one of NumPy's or an array.

        Such a number leaves an operator to the other operand, where that is an object of the user's; NumPy's
        would make an array of the object, which is refused.
        """

    @abstractmethod
    def kind(self, symbol: Any) -> type:
        """The class of what it stands for: ``np.ndarray``, ``np.float64``, ``float`` and so on."""

    @abstractmethod
    def attribute(self, symbol: Any, name: str) -> Any:
        """``symbol.name``; a method is any callable (it may be asked for and called later)."""

    @abstractmethod
    def item(self, values: Any, index: Any) -> Any:
        """``values[index]``, where one of them is a symbol; `values` is a symbol, or an ``ndarray``."""

    @abstractmethod
    def assign(self, values: Any, index: Any, value: Any) -> None:
        """``values[index] = value`` where `values` is a symbol."""

    @abstractmethod
    def iterate(self, symbol: Any) -> Iterator[Any]:
        """What ``for`` goes through; raises TypeError where NumPy does."""

    @abstractmethod
    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """A function of NumPy's, of :mod:`math` or of Python's with a symbol somewhere in its arguments.

        Args:
            function: by identity; methods of ufuncs are bound (``np.add.reduce``), what :meth:`attribute`
                gave is called as it is and does not come here. Of Python's own these come: ``complex``,
                ``copy.copy``, ``copy.deepcopy``, ``divmod``, ``float``, ``int``, ``len``, ``pow``, ``round``,
                ``sum`` (of a list, whatever it was given). ``np.c_`` and ``np.r_`` come as functions:
                themselves, with what is in the brackets for their one argument.
            arguments: as M gave them.
            options: the same by name.
        """

    @abstractmethod
    def made(self, function: Any, result: Any) -> Any:
        """What M gets of a fresh ``ndarray`` that `function` made of plain values.

        Arrays of floats that M may write symbols into must become symbols here, as those of ``np.zeros``,
        ``np.empty`` (of which nothing may be used before it is assigned), ``np.array`` and their like.
        `result` shares no memory with anything else.

        Args:
            function: what was called, by identity; methods by their name, a string (``"copy"``).
            result: what it returned.
        """
