"""Laws are about answers, not about how quick a busy machine gives them."""

from hypothesis import settings

settings.register_profile("laws", deadline=None, max_examples=60)
settings.load_profile("laws")
