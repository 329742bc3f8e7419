"""Soon."""

from tether.trusted.forms.form import Form, needed

FORM = Form("fmpy", lambda value: False, needed, ".fmu")
