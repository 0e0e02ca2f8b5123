"""Cold starts: how good is the first plan, before anything of a job has been seen?"""
