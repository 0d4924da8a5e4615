"""Submit, poll, classify endings, keep the run directory. The only room that starts
processes.
"""
