"""Small files, as those of sysfs."""


def text_of(path):
    with open(path) as file:
        return file.read().strip()


def write(path, text):
    with open(path, 'w') as file:
        file.write(text)
