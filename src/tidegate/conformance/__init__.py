"""Failures that users of autoscalers have reported, as stories that can be told to any law.

A *story* is what happens over time and what is right at the end of it. It is played in virtual time on the
controller that serves, with the law that was asked for inside. Nothing here knows a law by name but ``fitted``.
"""
