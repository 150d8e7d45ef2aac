-- Name a page ($2) of workers after $1, as list_workers lists them.
WITH RECURSIVE {known_workers}
SELECT page.id
FROM page
ORDER BY page.id
